"""Steps that the engine decides, as people see them: on a run's page, in its graph, and on the pipeline's."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.engine_steps import choice, gather, transform
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.spec import Case, StepSpec, engine_task
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep, WaitStep

DAY_MS = 86_400_000
INPUT = {"total": 1_200, "vip": False}


def waits(id: str, step: WaitStep, *needs: str) -> StepSpec:
    return StepSpec(id, engine_task(step), needs, decides=step)


def run_of(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


STEPS = (
    StepSpec("reserve", "noop"),
    choice(
        "size",
        Case("input.total > 1000", ("ask",), "large"),
        Case(None, ("small",)),
        needs=("reserve",),
    ),
    waits("ask", Approval("Ship order 17?", ("alice", "group:finance"), needs=2), "size"),
    StepSpec("small", "noop", ("size",)),
    transform("sums", {"gross": "${input.total * 1.2}"}, ("reserve",)),
    StepSpec("gift", "noop", ("sums",), condition="input.vip && input.total > 500"),
    waits("paid", SignalWait(("paid", "cancelled")), "sums"),
    waits("night", Sleep(ms=DAY_MS), "sums"),
    gather("both", ("paid", "night")),
    StepSpec("ship", "noop", ("ask", "both")),
)


@pytest.fixture
def waiting(worker: InlineWorker) -> str:
    """A run whose steps are decided, passed over, not chosen, or wait."""
    worker.driver.store_steps(*STEPS, id="order")
    run_id = worker.driver.trigger("order", INPUT)
    worker.consume_all()
    return run_of(run_id)


def step(page: Page) -> str:
    return page.locator("#step").inner_text()


def test_a_run_opens_on_the_approval_that_is_mine(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}")
    visit.page.wait_for_url("**step=ask")
    assert "Ship order 17?" in step(visit.page)
    assert "0 of 2" in step(visit.page) and "finance" in step(visit.page)
    visit.axe_in_both_themes(WIDE, PHONE)
    visit.page.set_viewport_size(WIDE)
    visit.page.locator("#step").get_by_role("link", name="Approve…").click()
    visit.page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    visit.see("Your vote is stored.")
    assert "1 of 2" in step(visit.page)


def test_somebody_else_is_not_sent_to_it(
    browser: Browser, server: str, driver: RunDriver, waiting: str, make_token: Callable[..., str]
) -> None:
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        visit.open(f"/runs/{waiting}")
        assert "step=" not in visit.page.url


def test_the_panel_says_what_a_step_waits_for_and_until_when(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}?step=paid")
    assert "paid or cancelled" in step(visit.page) and "fails" in step(visit.page)
    visit.open(f"/runs/{waiting}?step=night")
    assert "Wakes" in step(visit.page)
    visit.page.locator("#step").get_by_role("link", name="The wait").click()
    visit.page.get_by_role("link", name="Wake it…").wait_for()


def test_a_step_that_was_passed_over_shows_its_condition_and_what_it_saw(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}?step=gift")
    shown = visit.page.locator("#condition").inner_text()
    assert "input.vip && input.total > 500" in shown
    assert "false" in shown and "1200" in shown
    visit.axe()


def test_lists_name_what_the_engine_decides_and_no_task(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}?tab=steps")
    rows = visit.page.locator("table.steps").inner_text()
    assert "pipeweave:" not in rows and "approval" in rows and "gather" in rows
    visit.open("/pipelines/order")
    row = visit.page.locator("#step-size")
    assert "choice" in row.inner_text() and row.get_by_role("link").count() == 0
    assert "input.vip" in visit.page.locator("#step-gift").inner_text()
    visit.axe()
    for tab in ("versions", "statistics", "trigger", "grid", "runs"):
        visit.open(f"/pipelines/order?tab={tab}")
    for tab in ("timeline", "events", "data", "log", "attempts", "why"):
        visit.open(f"/runs/{waiting}?tab={tab}&step=ask")


def test_the_drawing_has_shapes_marks_and_a_legend(
    browser: Browser, server: str, driver: RunDriver, waiting: str, make_token: Callable[..., str]
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        visit.open(f"/runs/{waiting}?tab=graph&step=ask")
        drawing = visit.page.locator(".graph-drawing")
        assert drawing.locator("path.graph-box").count() == 1
        assert drawing.locator(".graph-links path[stroke-dasharray]").count() >= 2
        assert "left" in (drawing.locator("a", has_text="night").text_content() or "")
        legend = visit.page.locator(".graph-legend").inner_text()
        assert all(word in legend for word in ("choice", "approval", "sleep", "not taken"))


def test_the_canvas_draws_them_and_keeps_its_legend(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}?tab=graph&step=sums")
    visit.page.locator(".graph-find").fill("waiting")
    # What a search finds by its status is only known once the states are.
    expect(visit.page.locator(".graph-stage")).to_be_visible()
    visit.page.wait_for_function("() => document.querySelector('pw-graph').states.isKnown")
    visit.page.locator(".graph-find").press("Enter")
    expect(visit.page.locator(".graph-spoken")).to_contain_text("left")
    visit.page.locator(".graph-legend", has_text="gather").wait_for()


def test_the_timeline_says_what_was_waited_for(visit: Visit, waiting: str) -> None:
    visit.open(f"/runs/{waiting}/timeline")
    visit.page.locator("#timeline-table summary").click()
    table = visit.page.locator("#timeline-table").inner_text()
    assert "waiting for an approval (alice, finance)" in table
    assert "waiting for a signal (paid or cancelled)" in table
    assert "asleep" in table
    visit.axe()
