"""What every page of the dashboard has."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from playwright.sync_api import Browser
from support.browser import PHONE, WIDE, Visit, visiting
from support.failed_runs import TWO, failed_run
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import READ

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"


def test_a_list_breaks_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    worker: InlineWorker,
    make_token: Callable[..., str],
) -> None:
    failed_run(worker, TWO, "c")
    token = make_token(READ)
    with visiting(browser, server, worker.driver.tenant, token) as visit:
        visit.open("/runs")
        visit.axe_in_both_themes(WIDE, PHONE)


_CUT = """() => [...document.querySelectorAll("#cards :is(.label, .value, .more)")]
  .filter((each) => each.scrollWidth > each.clientWidth || each.offsetHeight > 32)
  .map((each) => each.textContent)"""


def test_the_cards_of_the_overview_stand_in_whole_rows_and_none_is_cut(visit: Visit) -> None:
    page = visit.open("/?window=30d")
    for size, columns in (
        ({"width": 1440, "height": 900}, 4),
        ({"width": 1024, "height": 768}, 4),
        (PHONE, 2),
    ):
        page.set_viewport_size(size)
        assert page.evaluate(_CUT) == []
        lefts = page.locator("#cards > li").evaluate_all("(all) => all.map((each) => each.offsetLeft)")
        assert len(set(lefts)) == columns and len(lefts) == 4


def test_an_empty_list_says_how_to_fill_it(visit: Visit) -> None:
    visit.open("/runs")
    visit.see("No run yet.")
    visit.axe()


def test_an_error_is_a_page_that_says_what_is_wrong(visit: Visit) -> None:
    visit.open("/runs?status=odd", status=400)
    assert "status" in visit.page.locator("#problem").inner_text()
    visit.axe()


def test_a_list_is_filtered_by_its_address(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []})
    run_id = driver.trigger("driven")
    assert visit.open("/runs?status=running").locator(f"#{_id(driver, run_id)}").count() == 1
    visit.open("/runs?status=failed")
    visit.see("No run matches.")


def test_what_is_not_the_tenants_is_not_found(visit: Visit, browser: Browser) -> None:
    visit.expected.append("status of 404")
    answer = visit.page.goto(f"{visit.server}/ui/foreign/runs")
    assert answer is not None and answer.status == 404
    visit.see("not here, or not yours")


def test_without_a_token_a_page_leads_to_the_login(browser: Browser, server: str) -> None:
    with visiting(browser, server, "default") as visit:
        visit.expected.append("status of")
        visit.page.goto(f"{server}/ui/default/runs?status=failed")
        assert visit.page.url.startswith(f"{server}/ui/login?next=")


def test_a_verb_asks_first_and_shows_what_it_sends(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []})
    run_id = driver.trigger("driven")
    visit.open(f"/do/runs.cancel?id={_id(driver, run_id)}&next={visit.root.removeprefix(visit.server)}/runs")
    sent = visit.page.locator("#sent")
    assert "POST /api/runs/" in sent.inner_text() and "pipeweave cancel" in sent.inner_text()
    visit.page.get_by_label("Reason").fill("wrong input")
    visit.page.get_by_role("button", name="Cancel run").click()
    visit.see("The run is cancelled.")
    [row] = driver.rows("SELECT status FROM runs WHERE id = :id", id=run_id)
    assert row.status == "cancelled"


def test_who_may_only_read_sees_no_verb_and_can_do_none(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []})
    run_id = driver.trigger("driven")
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        visit.open("/runs")
        visit.see("read only")
        visit.open(f"/do/runs.cancel?id={_id(driver, run_id)}")
        visit.expected.append("status of 403")
        visit.page.get_by_role("button", name="Cancel run").click()
        visit.see("lacks the scope write")
    [row] = driver.rows("SELECT status FROM runs WHERE id = :id", id=run_id)
    assert row.status != "cancelled"


def test_a_page_shows_what_happened_meanwhile(visit: Visit, driver: RunDriver) -> None:
    visit.open("/runs")
    visit.see("No run yet.")
    driver.store({"a": []})
    run_id = driver.trigger("driven")
    visit.page.locator(f"#{_id(driver, run_id)}").wait_for()


def test_hostile_parameters_stay_text(visit: Visit) -> None:
    visit.expected.append("status of 400")
    visit.page.goto(f"{visit.root}/runs?pipelineId={HOSTILE}&cursor={HOSTILE}")
    assert visit.page.locator("img").count() == 0
    assert "49" not in visit.page.locator("main").inner_text()


def _id(driver: RunDriver, run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)
