"""What changed: a run that failed beside the last one that completed, step by step and attempt by attempt."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Browser, expect
from support.browser import Visit, visiting
from support.factories import a_task, register
from support.failed_runs import TWO
from support.inline_worker import InlineWorker, failing
from support.run_driver import TASKS, RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE

HOSTILE = "<img src=x onerror=alert(1)>"


def id_of(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


def other_code(driver: RunDriver) -> None:
    """A worker comes with other code of the task `limited`."""
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", a_task("limited", "second", concurrency=2), TASKS[2])


@pytest.fixture
def three(worker: InlineWorker) -> list[str]:
    """Three runs: one that completed, one of the next version that failed with another input and other code,
    and one behind it.
    """
    driver = worker.driver
    driver.store(TWO, id="report", tasks={"b": "limited"})
    runs = [driver.trigger("report", {"day": 1})]
    worker.consume_all()
    driver.store({**TWO, "d": ["a"]}, id="report", tasks={"b": "limited"}, failureMode="continue")
    other_code(driver)
    worker.fails = failing("b", "d")
    runs.append(driver.trigger("report", {"day": HOSTILE}))
    worker.consume_all()
    driver.store(TWO, id="report", tasks={"b": "limited"}, failureMode="continue")
    runs.append(driver.trigger("report", {"day": 3}))
    return [id_of(each) for each in runs]


def test_a_failed_run_says_what_changed_since_the_last_that_completed(visit: Visit, three: list[str]) -> None:
    good, bad, _ = three
    visit.open(f"/runs/{bad}")
    since = visit.page.locator("#since")
    expect(since).to_contain_text("another input")
    expect(since).to_contain_text("v1 → v2: 1 step differs")
    expect(since).to_contain_text("other code in b")
    expect(visit.page.locator(".run-head")).to_contain_text("now v3: 1 step differs")
    expect(visit.page.locator("#step")).to_contain_text("v1 in the last run that completed")
    since.locator("summary").click()
    visit.axe()
    since.get_by_role("link", name="Compare with it").click()
    visit.page.wait_for_url(f"**/compare/{good}/{bad}")
    visit.open(f"/runs/{bad}?tab=graph")
    visit.page.locator("pw-graph .graph-spoken").filter(has_text="other code").wait_for(state="attached")
    visit.open(f"/runs/{bad}?tab=steps")
    row = visit.page.locator("tr", has=visit.page.get_by_role("link", name="b", exact=True))
    expect(row).to_contain_text("code v1 → v2")
    visit.page.get_by_role("link", name="now v3: 1 step differs").click()
    visit.see("From v2 to v3")


def test_keys_go_to_the_runs_beside_and_to_the_next_failure(visit: Visit, three: list[str]) -> None:
    good, bad, later = three
    page = visit.open(f"/runs/{bad}?tab=steps")
    expect(page.locator("#step")).to_contain_text("Failed step 1 of 2")
    page.keyboard.press("f")
    page.wait_for_url("**step=d**")
    expect(page.locator("#step")).to_contain_text("Failed step 2 of 2")
    page.keyboard.press("Shift+F")
    expect(page.locator("#step .name")).to_have_text("b")
    page.keyboard.press("]")
    page.wait_for_url(f"**/runs/{later}")
    page.keyboard.press("[")
    page.wait_for_url(f"**/runs/{bad}")
    page.keyboard.press("[")
    page.wait_for_url(f"**/runs/{good}")
    expect(page.get_by_role("link", name="Run before")).to_have_count(0)


def test_values_are_compared_with_those_of_the_last_run_that_completed(
    browser: Browser,
    server: str,
    worker: InlineWorker,
    three: list[str],
    make_token: Callable[..., str],
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, worker.driver.tenant, token) as visit:
        visit.open(f"/runs/{three[1]}?tab=data&step=b&diff=last")
        changed = visit.page.locator("#diff")
        expect(changed).to_contain_text("Code: v1 → v2")
        expect(changed.locator("tr", has_text=".day")).to_contain_text(HOSTILE)
        assert visit.page.locator("img").count() == 0
        visit.axe_in_both_themes()
        visit.open(f"/runs/{three[1]}?tab=data&diff=last")
        expect(visit.page.locator("#diff").get_by_role("heading", name="Input")).to_be_visible()
        visit.open(f"/runs/{three[1]}?tab=data&step=d&diff=last")
        visit.see("No run of this pipeline completed before this one with this step.")
        visit.open(f"/runs/{three[1]}?tab=steps&step=b")
        visit.axe_in_both_themes()


def test_without_a_completed_run_nothing_is_compared(visit: Visit, worker: InlineWorker) -> None:
    worker.fails = failing("b")
    worker.driver.store(TWO, id="never")
    run_id = id_of(worker.driver.trigger("never"))
    worker.consume_all()
    visit.open(f"/runs/{run_id}")
    expect(visit.page.locator("#since")).to_have_count(0)
    visit.open(f"/runs/{run_id}?tab=data&diff=last")
    visit.see("No run of this pipeline completed before this one.")


def test_an_open_run_says_about_how_long_it_takes_still(visit: Visit, worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store(TWO, id="timed")
    driver.trigger("timed")
    worker.consume_all()
    longer = """UPDATE task_runs SET finished_at = started_at + interval '30 s'
        WHERE tenant_id = :tenant AND step_id = 'b' RETURNING 1"""
    driver.rows(longer, tenant=driver.tenant)
    visit.open(f"/runs/{id_of(driver.trigger('timed'))}")
    left = visit.page.locator(".run-head span", has_text="about")
    expect(left).to_have_text("about 30 s left")
    expect(left).to_have_attribute("title", re.compile("^By 1 completed run, too few to be sure;"))
