"""From a run that failed to its end, and from dead letters to a redrive, without a pointer."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect
from support.browser import Visit
from support.failed_runs import TWO, failed_run
from support.inline_worker import InlineWorker

from pipeweave import ids

# A page with more stops than this between two places is not made for keys.
MOST_TABS = 60


def go_to(page: Page, place: Locator) -> None:
    """Press Tab until this has the focus, and check that one can see that."""
    for _ in range(MOST_TABS):
        if place.evaluate("each => each === document.activeElement"):
            expect(place).to_be_in_viewport()
            assert place.evaluate("each => each.matches(':focus-visible')")
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{MOST_TABS} times Tab do not lead there")


def test_a_failed_run_is_found_read_retried_and_watched(visit: Visit, worker: InlineWorker) -> None:
    run_id = failed_run(worker, TWO, "b", id="report")
    page = visit.open("/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{ids.show(ids.RUN, run_id)}**")
    expect(page.locator(".traceback")).to_contain_text("Traceback")
    worker.fails = {}
    go_to(page, page.locator("#step").get_by_role("link", name="Retry", exact=True))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("POST /api/dlq/")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    # Where one was before the dialog, one is after it.
    assert page.evaluate("document.activeElement.textContent.trim()") == "Retry"
    page.keyboard.press("Enter")
    go_to(page, page.get_by_role("dialog").get_by_role("button", name="Retry", exact=True))
    page.keyboard.press("Enter")
    visit.see("The task run is tried again.")
    worker.take_over()
    page.locator(".run-head strong", has_text="completed").wait_for()


def test_dead_letters_are_redriven(visit: Visit, worker: InlineWorker) -> None:
    failed_run(worker, TWO, "b", id="report")
    page = visit.open("/runs")
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/dead-letters")
    go_to(page, page.locator(".groups").get_by_role("link", name="Redrive…"))
    page.keyboard.press("Enter")
    visit.see("What is sent")
    go_to(page, page.get_by_role("button", name="Redrive", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url("**/redrives/*")
    visit.see("0 of 1 done")
