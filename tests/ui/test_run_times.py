"""The ledger, the timeline and the item matrix in a browser, and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Locator
from support.browser import PHONE, WIDE, Visit, visiting
from support.run_driver import RunDriver
from support.timed_runs import TimedRuns

from pipeweave import ids
from pipeweave.orchestrator.security import READ


@pytest.fixture
def runs(database_url: str, driver: RunDriver) -> Iterator[TimedRuns]:
    made = TimedRuns(database_url, driver.tenant)
    yield made
    made.close()


@pytest.fixture
def run_id(runs: TimedRuns) -> UUID:
    return runs.report()


def path(run_id: UUID, rest: str) -> str:
    return f"/runs/{ids.show(ids.RUN, run_id)}{rest}"


def test_without_scripts_the_timeline_is_a_picture_and_a_table(
    browser: Browser, server: str, driver: RunDriver, run_id: UUID, make_token: Callable[..., str]
) -> None:
    token = make_token(READ)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        page = visit.open(path(run_id, "/timeline"))
        assert page.locator("svg.timeline-picture g").count() == 5
        assert "= " in page.locator(".ledger-text").inner_text()
        page.get_by_text("The steps as a table").click()
        rows = page.locator("#timeline-table tbody tr")
        assert rows.count() == 5
        assert "work" in rows.first.inner_text()
        page = visit.open(path(run_id, "/steps/resize/items?itemStatus=failed"))
        shown = page.locator("tbody tr").all_inner_texts()
        assert [each.split()[0] for each in shown] == ["13", "33", "53"]


def drawn(visit: Visit, element: str) -> Locator:
    """The element, once it has drawn."""
    found = visit.page.locator(element)
    found.locator("[data-drawn]").wait_for()
    return found


def test_both_screens_break_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    driver: RunDriver,
    run_id: UUID,
    make_token: Callable[..., str],
) -> None:
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        visit.open(path(run_id, "/timeline"))
        drawn(visit, "pw-timeline")
        for size in (WIDE, PHONE):
            visit.axe_in_both_themes(size)
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        visit.open(path(run_id, "/steps/resize/items"))
        drawn(visit, "pw-matrix")
        visit.axe_in_both_themes(PHONE, WIDE)


def test_keys_go_through_the_steps_and_what_they_did(visit: Visit, run_id: UUID) -> None:
    visit.open(path(run_id, "/timeline"))
    canvas = drawn(visit, "pw-timeline").locator("canvas")
    told = visit.page.locator("pw-timeline .tl-told")
    canvas.press("ArrowDown")
    assert told.inner_text().startswith("list: completed")
    visit.page.evaluate("document.addEventListener('pw-select', e => { window.chosen = e.detail.step })")
    canvas.press("f")
    assert told.inner_text().startswith("resize: completed")
    canvas.press("f")
    assert "an attempt that failed (WEAK)" in told.inner_text()
    assert visit.page.evaluate("window.chosen") == "tag"
    canvas.press("+")
    assert "from=" in visit.page.url and "to=" in visit.page.url
    zoomed = visit.page.url
    visit.page.goto(zoomed)
    drawn(visit, "pw-timeline")
    assert visit.page.get_by_label("From (s)").input_value() != "0.0"
    visit.page.get_by_role("button", name="All").click()
    assert "from=" not in visit.page.url


def test_a_drag_over_the_timeline_shows_these_times(visit: Visit, run_id: UUID) -> None:
    visit.open(path(run_id, "/timeline"))
    box = drawn(visit, "pw-timeline").locator("canvas").bounding_box()
    assert box is not None
    y = box["y"] + 60
    visit.page.mouse.move(box["x"] + 300, y)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + 450, y, steps=4)
    visit.page.mouse.up()
    began, ended = (float(visit.page.get_by_label(each).input_value()) for each in ("From (s)", "to (s)"))
    assert 0 < began < ended < 40


def test_a_sum_of_the_ledger_filters_the_rows(visit: Visit, run_id: UUID) -> None:
    visit.open(path(run_id, "/timeline"))
    element = drawn(visit, "pw-timeline")
    assert element.locator("[data-drawn]").get_attribute("data-drawn") == "5"
    visit.page.get_by_text("Show as table").click()
    visit.page.get_by_role("button", name="waiting for a slot of single").click()
    visit.page.locator("pw-timeline [data-drawn='1']").wait_for()


def test_the_bar_of_a_ledger_is_as_wide_as_its_causes(visit: Visit, run_id: UUID) -> None:
    """A rule for other elements with the same class would cover causes."""
    visit.open(path(run_id, "/timeline"))
    rects = visit.page.locator(".ledger-bar rect")
    assert rects.count() > 2
    widths = "all => all.map(each => [each.width.baseVal.value, parseFloat(getComputedStyle(each).width)])"
    for said, drawn_as in rects.evaluate_all(widths):
        assert abs(said - drawn_as) < 0.1


def test_a_matrix_tells_of_an_item_and_of_a_range(visit: Visit, run_id: UUID) -> None:
    visit.open(path(run_id, "/steps/resize/items"))
    canvas = drawn(visit, "pw-matrix").locator("canvas")
    told = visit.page.locator("pw-matrix .tl-told")
    canvas.press("f")
    assert told.inner_text().startswith("Item 13: failed")
    for _ in range(3):
        canvas.press("Shift+ArrowRight")
    assert told.inner_text().startswith("Items 13 to 16: 1 failed, 3 completed.")
    canvas.press("Enter")
    visit.page.wait_for_url("**first=13&last=16**")
    assert visit.page.locator("tbody tr").count() == 4


def test_an_open_run_is_drawn_further(visit: Visit, runs: TimedRuns) -> None:
    run_id = runs.report(is_open=True)
    visit.open(path(run_id, "/timeline"))
    drawn(visit, "pw-timeline")
    visit.page.get_by_text("The steps as a table").click()
    runs.wait(4)
    runs.end(runs.working)
    visit.page.locator("#timeline-table tr", has_text="report").get_by_role(
        "cell", name="queue", exact=False
    ).last.wait_for()


def test_names_of_steps_and_directions_in_an_address_do_no_harm(visit: Visit, run_id: UUID) -> None:
    visit.open(path(run_id, "/timeline?from=odd&to=-5&order=%3Cimg src=x%3E&idle=short&step=nowhere"))
    drawn(visit, "pw-timeline")
    visit.open(path(run_id, "/steps/resize/items?first=-1"), status=400)
    visit.see("first")
