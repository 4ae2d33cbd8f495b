"""Steps that run pipelines, as people see them: in the graph, on the page of the run, on those inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.child_runs import child, children, loop, only_child
from support.engine_steps import choice
from support.inline_worker import InlineWorker
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.spec import Case, MapSpec, SignalWait, StepSpec, engine_task

PAID = SignalWait(("paid",))
STEPS = (
    choice("size", Case("input.total > 1000", ("charge",), "large"), Case(None, ("small",))),
    child("charge", "charge-card", ("size",)),
    StepSpec("small", "noop", ("size",)),
    loop("review", "ask", 5, until="last.payload.ok"),
    child("each", "charge-card", map=MapSpec([1, 2, 3])),
    StepSpec("ship", "noop", ("charge", "review", "each")),
)


@pytest.fixture
def outer(worker: InlineWorker) -> str:
    """A run that waits for a child, in the first round of a loop, and for a map of pipelines."""
    wait = StepSpec("wait", engine_task(PAID), decides=PAID)
    worker.driver.store_steps(wait, id="charge-card")
    worker.driver.store_steps(wait, id="ask")
    worker.driver.store_steps(*STEPS, id="order")
    run_id = worker.driver.trigger("order", {"total": 1_200})
    worker.consume_all()
    return ids.show(ids.RUN, run_id)


def panel(page: Page) -> str:
    return page.locator("#step").inner_text()


def test_the_drawing_has_frames_rounds_and_the_names_of_cases(
    browser: Browser, server: str, worker: InlineWorker, outer: str, make_token: Callable[..., str]
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, worker.driver.tenant, token, java_script_enabled=False) as visit:
        visit.open(f"/runs/{outer}?tab=graph&step=charge")
        drawing = visit.page.locator(".graph-drawing")
        assert drawing.locator("a", has_text="charge-card").locator("rect.graph-box").count() == 4
        texts = drawing.text_content() or ""
        assert all(word in texts for word in ("large", "else", "map of charge-card", "round 1 of at most 5"))
        legend = visit.page.locator(".graph-legend").inner_text()
        assert "pipeline" in legend and "loop" in legend


def test_a_step_leads_to_its_run_and_that_back(visit: Visit, worker: InlineWorker, outer: str) -> None:
    visit.open(f"/runs/{outer}?step=charge")
    assert "waits for the signal 'paid'" in panel(visit.page)
    visit.axe_in_both_themes(WIDE, PHONE)
    visit.page.set_viewport_size(WIDE)
    visit.page.locator("[data-opens-run]").click()
    head = visit.page.locator(".run-head")
    expect(head).to_contain_text("belongs to")
    head.locator(f"a[href*='{outer}']").first.click()
    visit.page.wait_for_url(f"**/runs/{outer}**")


def test_a_framed_box_of_the_canvas_opens_its_run(visit: Visit, worker: InlineWorker, outer: str) -> None:
    visit.open(f"/runs/{outer}?tab=graph&step=review")
    expect(visit.page.locator(".graph-stage")).to_be_visible()
    visit.page.wait_for_function("() => document.querySelector('pw-graph').states.isKnown")
    visit.page.locator("[data-opens-run]").wait_for()
    visit.page.locator(".graph-stage").press("Enter")
    [review] = [
        each for each in children(worker.driver, ids.read(ids.RUN, outer)) if each.pipeline_id == "ask"
    ]
    visit.page.wait_for_url(f"**/runs/{ids.show(ids.RUN, review.id)}**")


def test_a_loop_says_in_which_round_it_is_and_lists_its_runs(
    visit: Visit, worker: InlineWorker, outer: str
) -> None:
    run_id = ids.read(ids.RUN, outer)
    runs = WaitingRuns(worker.driver)
    for _ in range(5):
        runs.send(run_id, "paid", {"ok": False})
    worker.consume_all()
    visit.open(f"/runs/{outer}?step=review")
    assert "round" in panel(visit.page)
    expect(visit.page.locator("#step")).to_contain_text("Its runs")
    visit.axe()


def test_items_lead_to_their_runs(visit: Visit, worker: InlineWorker, outer: str) -> None:
    visit.open(f"/runs/{outer}/steps/each/items")
    rows = visit.page.locator("table").first
    expect(rows.locator("a[href*='/runs/prun_']")).to_have_count(3)
    visit.axe()


def test_the_ledger_and_the_timeline_name_what_runs_inside(
    visit: Visit, worker: InlineWorker, outer: str
) -> None:
    visit.open(f"/runs/{outer}/timeline")
    visit.page.locator("#timeline-table summary").click()
    assert "(charge-card)" in visit.page.locator("#timeline-table").inner_text()
    worker.driver.store_steps(child("down", "charge-card"), id="top")
    top = worker.driver.trigger("top")
    assert only_child(worker.driver, top)
    visit.open(f"/runs/{ids.show(ids.RUN, top)}?tab=timeline")
    expect(visit.page.locator("main")).to_contain_text("for signal paid")
