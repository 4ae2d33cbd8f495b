"""Queues, limits and schedules, as a person sees and changes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.factories import a_task, register
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import ADMIN, READ, WRITE
from pipeweave.orchestrator.starts.schedules import storing

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def admin(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """An administrator of the tenant."""
    with visiting(browser, server, driver.tenant, make_token(READ, WRITE, ADMIN)) as visit:
        yield visit


@pytest.fixture
def held(driver: RunDriver) -> RunDriver:
    """Five runs of a task of which two may run at once."""
    driver.store({"a": []}, id="limited", tasks={"a": "limited"})
    for _ in range(5):
        driver.trigger("limited")
    return driver


@pytest.fixture
def scheduled(driver: RunDriver) -> RunDriver:
    """A schedule whose input tries to be more than text."""
    driver.store({"a": []})
    spec = storing.ScheduleSpec("driven", cron="30 2 * * *", time_zone="Europe/Berlin", input={"x": HOSTILE})
    driver.database.run(lambda tx: storing.put(tx, driver.tenant, "nightly", spec))
    return driver


def test_an_empty_queue_says_so(visit: Visit) -> None:
    visit.open("/queues")
    visit.see("Nothing waits, and nothing runs.")
    visit.axe()


def test_raising_a_limit_lets_what_waits_go(admin: Visit, held: RunDriver) -> None:
    admin.open("/queues")
    row = admin.page.locator("tr", has=admin.page.get_by_role("link", name="limited", exact=True)).first
    assert "2 of 2" in row.inner_text()
    row.get_by_role("link", name="Set limits…").click()
    admin.see("declares 2 at once")
    admin.page.get_by_label("At once").fill("4")
    admin.page.get_by_label("Reason").fill(f"more tonight {HOSTILE}")
    admin.page.get_by_role("button", name="Set limits").click()
    admin.see("4 of 4")
    admin.see("set by hand")
    rows = held.rows("SELECT status FROM task_runs WHERE tenant_id = :tenant", tenant=held.tenant)
    assert sorted(each.status for each in rows) == ["queued"] * 4 + ["ready"]
    assert admin.page.locator("img").count() == 0


def test_all_that_waits_of_a_task_is_on_the_screen_of_queues(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []}, id="busy")
    driver.store({"a": []}, id="limited", tasks={"a": "limited"})
    driver.trigger("limited")
    for _ in range(21):
        driver.trigger("busy")
    visit.open("/tasks/noop")
    visit.page.get_by_role("link", name="All of them").click()
    rows = visit.page.get_by_role("region", name="Open task runs").locator("tbody tr")
    expect(rows).to_have_count(21)


def test_why_a_run_waits_leads_to_the_limit_that_holds_it(admin: Visit, driver: RunDriver) -> None:
    driver.database.run(lambda tx: register(tx, driver.tenant, a_task("alone", concurrency=1), id="alone"))
    driver.store({"a": []}, id="photos", tasks={"a": "alone"})
    driver.trigger("photos")
    waits = driver.trigger("photos")
    second = ids.show(ids.RUN, waits)
    admin.open(f"/runs/{second}?tab=why")
    admin.see("its task allows 1 at once, and 1 are running or queued")
    admin.page.keyboard.press("g")
    admin.page.keyboard.press("q")
    admin.page.wait_for_url("**/queues")
    row = admin.page.get_by_role("region", name="Open task runs").locator("tr", has_text="ready")
    assert "its task allows 1 at once" in row.inner_text()
    assert "it is number 1 in its queue" in row.inner_text()
    limits = admin.page.get_by_role("region", name="Limits").locator("tr", has_text="alone")
    limits.get_by_role("link", name="Set limits…").click()
    admin.page.get_by_label("At once").fill("2")
    admin.page.get_by_role("button", name="Set limits").click()
    admin.see("2 of 2")
    driver.finish(waits, "a")
    assert driver.run(waits).status == "completed"
    admin.open(f"/runs/{second}")
    assert admin.page.locator(".run-head strong").inner_text() == "completed"


def test_one_queue_shows_what_waits_in_it_and_who_serves_it(visit: Visit, held: RunDriver) -> None:
    visit.open("/queues")
    visit.page.get_by_role("region", name="Queues").get_by_role("link").first.click()
    visit.page.get_by_role("heading", name="Who serves it").wait_for()
    visit.see("pipeweave worker --app YOUR_MODULE")
    assert visit.page.get_by_role("region", name="Open task runs").get_by_role("row").count() == 6
    assert "no running worker serves" in visit.page.locator("main").inner_text()
    visit.axe()
    visit.page.get_by_label("Status").select_option("waiting")
    visit.see("Nothing matches.")
    visit.page.get_by_role("link", name="Remove the filters").click()
    visit.page.get_by_role("heading", name="Who serves it").wait_for()
    visit.open("/queues?queue=pipeweave.another.python", status=404)


def test_pausing_the_tenant_says_how_much_waits(visit: Visit, held: RunDriver) -> None:
    visit.open("/queues")
    visit.page.get_by_role("link", name="Pause the tenant").click()
    visit.see("5 task runs wait")
    visit.page.get_by_label("Reason").fill("moving house")
    visit.page.get_by_role("button", name="Pause the tenant").click()
    visit.see("moving house")
    visit.page.get_by_role("link", name="Resume the tenant").click()
    visit.page.get_by_role("button", name="Resume the tenant").click()
    visit.page.get_by_role("link", name="Pause the tenant").wait_for()


def test_a_schedule_shows_its_times_in_its_zone_and_is_paused(visit: Visit, scheduled: RunDriver) -> None:
    visit.open("/schedules")
    visit.page.get_by_role("link", name="nightly").click()
    visit.see("in Europe/Berlin")
    visit.see(HOSTILE)
    assert visit.page.locator("img").count() == 0
    assert "02:30:00 CE" in visit.page.locator("#next + ol").inner_text()
    visit.axe()
    visit.page.get_by_role("link", name="Pause", exact=True).click()
    visit.page.get_by_role("button", name="Pause", exact=True).click()
    visit.see("While it is paused, nothing starts at these times.")


def test_a_backfill_says_how_many_runs_it_would_start(visit: Visit, scheduled: RunDriver) -> None:
    visit.open("/do/schedules.backfill?id=nightly&from=2026-01-01T00:00:00Z&to=2026-01-05T00:00:00Z")
    visit.see("starts 4 runs, one for each due time that nothing was decided about")
    visit.see("By the clocks of Europe/Berlin, the schedule's zone.")
    first = visit.page.get_by_label("First time")
    assert first.input_value() == "2026-01-01T01:00"
    first.fill("2026-01-02T02:31")
    visit.page.get_by_role("button", name="Backfill").click()
    visit.see("The runs have begun.")
    visit.open("/schedules/nightly")
    fires = visit.page.get_by_role("region", name="Last fires").get_by_role("row")
    assert fires.count() == 3, "the heading, and the nights to the 3rd and the 4th"
    visit.open("/schedules")
    assert visit.page.locator("svg.strip title").text_content() == "running, running"
    visit.axe()


def test_a_week_shows_the_times_of_all_schedules(visit: Visit, scheduled: RunDriver) -> None:
    put = functools.partial(storing.put, tenant=scheduled.tenant)
    often = storing.ScheduleSpec("driven", every_ms=60_000)
    scheduled.database.run(lambda tx: put(tx, schedule_id="often", spec=often))
    visit.open("/schedules")
    visit.page.get_by_role("link", name="Week", exact=True).click()
    visit.page.get_by_role("textbox", name="Week of").fill("2031-03-27")
    visit.page.get_by_role("button", name="Show").click()
    visit.see("clocks go forward: this day has 23 hours")
    region = visit.page.get_by_role("region", name="Week of 2031-03-24")
    assert region.get_by_role("link", name="02:30 nightly").count() == 6
    assert region.get_by_role("link", name="03:00 nightly").count() == 1
    visit.see("Due too often to be listed")
    visit.see("every 1 min")
    visit.axe()
    visit.page.get_by_role("link", name="Week before").click()
    visit.page.wait_for_url("**week=2031-03-17**")
    assert visit.page.get_by_role("link", name="02:30 nightly").count() == 7
    visit.page.get_by_role("link", name="02:30 nightly").first.click()
    visit.page.wait_for_url("**/schedules/nightly")
    visit.see("one run starts for all times that passed more than a minute ago")
    for wrong in ("week=never", "week=9999-12-31", "zone=Mars/Base"):
        visit.open(f"/schedules?tab=week&{wrong}", status=400)


def test_schedules_are_filtered_by_state(visit: Visit, scheduled: RunDriver) -> None:
    visit.open("/schedules?state=paused")
    visit.see("Nothing matches.")
    visit.open("/schedules?state=on")
    visit.page.get_by_role("link", name="nightly").wait_for()


def test_firing_a_schedule_leads_to_its_run(visit: Visit, scheduled: RunDriver) -> None:
    visit.open("/do/schedules.fire?id=nightly")
    visit.expected.append("status of 404")
    visit.page.get_by_role("button", name="Fire now").click()
    visit.page.wait_for_url("**/runs/prun_*")


def test_these_screens_break_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    held: RunDriver,
    scheduled: RunDriver,
    make_token: Callable[..., str],
) -> None:
    token = make_token(READ, WRITE, ADMIN)
    with visiting(browser, server, held.tenant, token) as visit:
        for path in ("/queues", "/schedules", "/schedules?tab=week", "/triggers"):
            visit.open(path)
            visit.axe_in_both_themes(WIDE, PHONE)
