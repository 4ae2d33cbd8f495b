"""The list of workers and one worker, as a person sees and drains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser
from support.browser import PHONE, WIDE, Visit, visiting
from support.factories import a_worker, register
from support.run_driver import RunDriver, claim, settle

from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.registry import WorkerLoad, drains, worker_processes
from pipeweave.orchestrator.security import ADMIN, READ, WRITE
from pipeweave.orchestrator.store.database import Database

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def worker_id(database: Database, driver: RunDriver) -> str:
    """A worker that lives, with a load."""
    load = WorkerLoad(1, timedelta(seconds=3), 50 * 2**20, 12.5, 1_200)
    with database.transaction() as tx:
        register(tx, driver.tenant, "count")
        made = a_worker(tx, driver.tenant, "count", labels={"zone": "eu", "gpu": "a100"})
        # Nobody sends its heartbeats: this one is good for the whole test.
        worker_processes.beat(tx, made, load=load, now=tx.now + timedelta(hours=1))
    return made


@pytest.fixture
def admin(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """An administrator of the tenant."""
    with visiting(browser, server, driver.tenant, make_token(READ, WRITE, ADMIN)) as visit:
        yield visit


def test_without_a_worker_the_page_says_how_to_start_one(visit: Visit) -> None:
    visit.open("/workers")
    visit.see("pipeweave worker --app YOUR_MODULE")
    visit.axe()


def test_an_administrator_drains_a_worker_and_resumes_it(admin: Visit, worker_id: str) -> None:
    admin.open("/workers")
    row = admin.page.locator("tbody tr")
    assert "1 of 2" in row.inner_text()
    assert "gpu=a100, zone=eu" in row.inner_text()
    assert "1,200" in row.inner_text()
    row.get_by_role("link", name="Drain").click()
    admin.see("What is sent")
    shown = admin.page.locator("[data-confirm-form]").inner_text()
    assert "takes nothing more" in shown
    assert f"pipeweave workers drain {worker_id}" in shown
    admin.page.get_by_label("Reason").fill(f"a new kernel {HOSTILE}")
    admin.page.get_by_role("button", name="Drain").click()
    admin.page.locator("tbody tr").get_by_text("draining").wait_for()
    admin.open(f"/workers/{worker_id}")
    admin.see(f"a new kernel {HOSTILE}")
    assert admin.page.locator("img").count() == 0
    admin.page.get_by_role("link", name="Resume").click()
    admin.page.get_by_role("button", name="Resume").click()
    admin.page.locator("h1").get_by_text("running").wait_for()


def test_what_waits_says_that_its_only_worker_drains_until_it_is_resumed(
    admin: Visit, driver: RunDriver, worker_id: str
) -> None:
    driver.store({"a": []}, tasks={"a": "count"})
    page = admin.open(f"/workers/{worker_id}")
    page.get_by_role("link", name="Drain").click()
    page.get_by_role("button", name="Drain").click()
    page.locator("h1").get_by_text("draining").wait_for()
    assert page.get_by_role("link", name="Drain").count() == 0
    driver.trigger()
    admin.open("/queues")
    line = page.get_by_role("region", name="Open task runs").get_by_role("row").nth(1)
    assert "the workers that have task count drain or stop" in line.inner_text()
    queue = page.get_by_role("region", name="Queues").get_by_role("row").filter(has_text="default").first
    assert "none" in queue.inner_text()
    queue.get_by_role("link").first.click()
    page.get_by_role("heading", name="Who serves it").wait_for()
    assert "draining" in page.locator("main").inner_text()
    admin.open(f"/workers/{worker_id}")
    page.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume").click()
    page.locator("h1").get_by_text("running").wait_for()
    admin.open("/queues")
    assert "running workers: 1, for 2 task runs at once" in line.inner_text()


def test_who_may_not_drain_sees_no_verb(visit: Visit, worker_id: str) -> None:
    visit.open(f"/workers/{worker_id}")
    visit.see("It runs nothing now.")
    assert visit.page.get_by_role("link", name="Drain").count() == 0


def test_what_was_lost_with_a_worker_is_shown_with_how_it_goes_on(
    visit: Visit, driver: RunDriver, worker_id: str
) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1, worker_processes.child_of(worker_id, 4711))
        assert started is not None
        settle(tx, started, failure=failure.lost("its process is gone"))
    page = visit.open(f"/workers/{worker_id}")
    row = page.locator("#lost ~ .table-scroll tbody tr").first
    assert "driven" in row.inner_text()
    visit.axe()
    row.get_by_role("link").first.click()
    visit.see("its process is gone")


def test_the_screens_of_workers_break_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    driver: RunDriver,
    database: Database,
    worker_id: str,
    make_token: Callable[..., str],
) -> None:
    with database.transaction() as tx:
        drains.drain(tx, driver.tenant, a_worker(tx, driver.tenant, "count", name="drained"))
        worker_processes.stop(tx, a_worker(tx, driver.tenant, "count", name="stopped"))
    token = make_token(READ, WRITE, ADMIN)
    with visiting(browser, server, driver.tenant, token) as visit:
        for path in ("/workers", f"/workers/{worker_id}"):
            visit.open(path)
            visit.axe_in_both_themes(WIDE, PHONE)
