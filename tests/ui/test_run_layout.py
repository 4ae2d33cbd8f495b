"""The page of a run: a header that is the same on every tab, and two columns with a line between them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from support.browser import Visit
from support.failed_runs import TWO
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT

from pipeweave import ids


@pytest.fixture
def failed(worker: InlineWorker) -> str:
    """A run of which one item of a map failed."""
    worker.fails = {("m", 2): PERMANENT}
    worker.driver.store({"m": [], **TWO}, id="parted", maps={"m": "${input}"}, failureMode="partial-merge")
    run_id = worker.driver.trigger("parted", list(range(9)))
    worker.consume_all()
    return ids.show(ids.RUN, run_id)


def test_the_header_is_the_same_on_every_tab_and_leaves_room(visit: Visit, failed: str) -> None:
    heights = set()
    for tab in ("", "?tab=timeline", "?tab=graph", "?tab=log", "?tab=data", "?tab=attempts"):
        page = visit.open(f"/runs/{failed}{tab}")
        box = page.locator(".tabs").bounding_box()
        assert box is not None
        heights.add(round(box["y"] + box["height"]))
    assert len(heights) == 1 and max(heights) <= 200
    cause = page.locator(".run-error")
    expect(cause).to_contain_text("BOOM")
    assert page.locator(".run-title .strong").all_inner_texts() == ["Retry failed"]


def test_a_map_that_failed_in_part_shows_the_error_of_an_item_at_once(visit: Visit, failed: str) -> None:
    page = visit.open(f"/runs/{failed}")
    expect(page.locator("#error-of")).to_contain_text("m[2] is the first of 1 that failed:")
    expect(page.locator("#error-of")).to_contain_text("it broke")
    expect(page.locator("tr.chosen")).to_contain_text("1 failed of 9")


def test_the_line_between_the_columns_is_moved_by_keys_and_stays(visit: Visit, failed: str) -> None:
    page = visit.open(f"/runs/{failed}")
    line = page.get_by_role("separator")
    width = "() => document.getElementById('step').getBoundingClientRect().width"
    before = page.evaluate(width)
    line.press("ArrowLeft")
    expect(line).to_have_attribute("aria-valuenow", "42")
    after = page.evaluate(width)
    assert after > before
    page.locator("table.steps").get_by_role("link", name="a", exact=True).click()
    page.wait_for_url("**step=a**")
    page.reload()
    expect(page.get_by_role("separator")).to_have_attribute("aria-valuenow", "42")
    assert page.evaluate(width) == after
    visit.axe_in_both_themes()


def test_the_old_address_of_the_timeline_leads_to_it(visit: Visit, failed: str) -> None:
    page = visit.open(f"/runs/{failed}/timeline?step=m")
    assert page.url.endswith(f"/runs/{failed}?step=m&tab=timeline")
    expect(page.get_by_role("link", name="Timeline")).to_have_attribute("aria-current", "true")


def test_the_log_of_a_map_opens_on_the_item_that_failed_and_events_name_it(visit: Visit, failed: str) -> None:
    page = visit.open(f"/runs/{failed}?tab=log")
    assert page.get_by_label("Step").locator("option").all_inner_texts()[:2] == ["all steps", "m ✗"]
    page.get_by_label("Step").select_option("m")
    expect(page.get_by_label("Step")).to_have_value("m")
    expect(page.get_by_label("Item")).to_have_value("2")
    visit.axe()
    page = visit.open(f"/runs/{failed}?tab=events")
    row = page.locator("tr", has_text="failed after")
    expect(row).to_contain_text("m[2]")
    visit.axe()


def test_a_map_that_ended_with_its_run_has_one_status_in_the_list_and_its_panel(
    visit: Visit, worker: InlineWorker
) -> None:
    """Its row is cancelled, because the run was over; as a step it has failed."""
    worker.fails = {("m", 0): PERMANENT}
    worker.driver.store({"m": []}, id="strict", maps={"m": "${input}"})
    run_id = worker.driver.trigger("strict", [1, 2])
    worker.consume_all()
    page = visit.open(f"/runs/{ids.show(ids.RUN, run_id)}")
    expect(page.locator("tr.chosen .mark title")).to_have_text("failed")
    expect(page.locator(".panel-head .badge")).to_have_text("failed")
