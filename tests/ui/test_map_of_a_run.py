"""A map of ten thousand items of which three failed: from the run to the item, and to its retry."""

from __future__ import annotations

from uuid import UUID

import pytest
from playwright.sync_api import expect
from support.browser import Visit
from support.run_driver import PERMANENT, RunDriver, header, settle

from pipeweave import ids
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.state import claiming

ITEMS, CHUNK = 10_000, 1_000
FAILED = (17, 4_321, 9_998)
# The first ordinal of an item: the map and the step behind it come first.
FIRST = 3


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    """A run that goes on after its map, whose items ended in large transactions."""
    steps: dict[str, list[str]] = {"m": [], "after": ["m"]}
    driver.store(steps, id="wide", maps={"m": "${input.list}"}, failureMode="continue")
    run_id = driver.trigger("wide", {"list": list(range(ITEMS))})
    kept = driver.values.keep(1)
    for first in range(FIRST, FIRST + ITEMS, CHUNK):
        with driver.database.transaction() as tx:
            started = claiming.start(tx, run_id, range(first, first + CHUNK), 1, worker="w1")
            ended = [
                (each, PERMANENT) if each.map_index in FAILED else Completion(each, kept, None)
                for each in started
            ]
            Turn(header(tx, run_id), ended, started[0].queue, max_retry_delay_ms=None).store(tx)
    driver.check(run_id, 1)
    return run_id


def work(driver: RunDriver, run_id: UUID, ordinal: int) -> None:
    """Do what the server has queued: its message went to a broker that nobody reads."""
    statement = "SELECT attempt FROM task_runs WHERE run_id = :run AND id = :id AND status = 'queued'"
    [row] = driver.rows(statement, run=run_id, id=ids.task_run_id(run_id, ordinal))
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [ordinal], row.attempt, worker="w1")
        settle(tx, started)


def test_from_the_matrix_to_an_item_that_failed_and_to_its_retry(
    visit: Visit, driver: RunDriver, run_id: UUID
) -> None:
    page = visit.open(f"/runs/{ids.show(ids.RUN, run_id)}?tab=steps")
    panel = page.locator("#step")
    expect(panel).to_contain_text("10,000 of 10,000 items ended, 3 failed")
    matrix = panel.locator("pw-matrix")
    matrix.locator("[data-drawn='10000']").wait_for()
    visit.axe()
    canvas = matrix.locator("canvas")
    for index in FAILED[:2]:
        canvas.press("f")
        page.wait_for_url(f"**item={index}*")
        expect(panel.locator(".name")).to_have_text(f"m[{index}]")
    expect(panel).to_contain_text(PERMANENT.code)
    expect(canvas).to_be_focused()
    page.reload()
    expect(matrix.locator(".tl-told")).to_contain_text("Item 4321: failed")
    panel.get_by_role("link", name="Retry", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    visit.see("The task run is tried again.")
    work(driver, run_id, FIRST + FAILED[1])
    expect(panel.locator(".badge", has_text="completed").first).to_be_visible()
    panel.get_by_role("link", name="The whole map").click()
    expect(panel).to_contain_text("10,000 of 10,000 items ended, 2 failed")
    matrix.locator("[data-drawn='10000']").wait_for()
    panel.get_by_role("link", name="All items").click()
    visit.see("9,998 completed")
