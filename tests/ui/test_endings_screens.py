"""Failures that are taken care of, and the ends of runs, as people see them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.handled_runs import call, last_child, rule, store_remedy
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.spec import Body, ChildCall, StepSpec


def shown(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


@pytest.fixture
def trip(driver: RunDriver) -> UUID:
    """A run whose steps are taken back, whose errors are taken care of, and which cleans up at its end."""
    store_remedy(driver)
    driver.store_steps(
        StepSpec("flight", "noop", compensate=call("remedy"), timeout_ms=30_000),
        StepSpec("pay", "noop", ("flight",), on_error=rule("remedy"), condition="input.total > 0"),
        finally_call=ChildCall(Body((StepSpec("release", "noop"),))),
        id="trip",
    )
    return driver.trigger("trip", {"total": 5})


def test_a_run_names_the_run_that_takes_care_of_an_error(visit: Visit, driver: RunDriver, trip: UUID) -> None:
    driver.finish(trip, "flight")
    driver.finish(trip, "pay", failure=PERMANENT)
    visit.open(f"/runs/{shown(trip)}?step=pay")
    head = visit.page.locator(".run-head")
    expect(head.locator(".ending")).to_contain_text("pay failed with BOOM; run")
    expect(visit.page.locator("#step")).to_contain_text("Its error is taken care of by")
    visit.axe_in_both_themes(WIDE, PHONE)
    inner = shown(last_child(driver, trip))
    head.locator(f"a[href*='{inner}']").click()
    visit.page.wait_for_url(f"**/runs/{inner}**")


def test_a_run_in_its_ending_says_which_part_runs_and_where(
    visit: Visit, driver: RunDriver, trip: UUID
) -> None:
    driver.finish(trip, "flight")
    driver.finish(trip, "pay", failure=PERMANENT)
    driver.finish(last_child(driver, trip), "cure", failure=PERMANENT)
    visit.open(f"/runs/{shown(trip)}")
    ending = visit.page.locator(".run-head .ending")
    expect(ending).to_contain_text("it takes flight back, part 1 of 2")
    expect(ending).to_contain_text("then it is failed")
    driver.finish(last_child(driver, trip), "cure", failure=PERMANENT)
    visit.open(f"/runs/{shown(trip)}")
    expect(ending).to_contain_text("it runs its finally, part 2 of 2")
    visit.axe_in_both_themes(WIDE, PHONE)
    driver.finish(last_child(driver, trip), "release", failure=PERMANENT)
    visit.open(f"/runs/{shown(trip)}?step=pay")
    expect(ending.first).to_contain_text("flight was not taken back: STEP_FAILED")
    expect(ending.last).to_contain_text("After its last step: flight taken back")
    expect(ending.nth(1)).to_contain_text("Its finally did not succeed: STEP_FAILED")
    expect(visit.page.locator("#step")).to_contain_text("What was to take care of it failed, too: STEP")


def test_the_graph_has_frames_for_what_runs_apart(
    browser: Browser, server: str, driver: RunDriver, trip: UUID, make_token: Callable[..., str]
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        visit.open(f"/runs/{shown(trip)}?tab=graph")
        drawing = visit.page.locator(".graph-drawing")
        assert drawing.locator(".graph-apart").count() == 3
        texts = drawing.text_content() or ""
        for title in (
            "when pay fails",
            "takes flight back when the run fails",
            "at the end, however it ends",
        ):
            assert title in texts


def test_the_canvas_draws_frames_and_selects_only_steps(visit: Visit, driver: RunDriver, trip: UUID) -> None:
    visit.open(f"/runs/{shown(trip)}?tab=graph&step=pay")
    expect(visit.page.locator(".graph-stage")).to_be_visible()
    visit.page.wait_for_function("() => document.querySelector('pw-graph').states.isKnown")
    frames = visit.page.evaluate("() => document.querySelector('pw-graph').scene.graph.frames.length")
    assert frames == 3
    stage = visit.page.locator(".graph-stage")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft"):
        stage.press(key)
    selected = "() => document.querySelector('pw-graph').marked.ordinal"
    visit.page.wait_for_function(f"{selected} === 1")


def test_a_pipeline_says_in_sentences_what_its_steps_do(visit: Visit, trip: UUID) -> None:
    visit.open("/pipelines/trip")
    row = visit.page.locator("#step-pay")
    expect(row).to_contain_text("Only if input.total > 0.")
    expect(row).to_contain_text("When its last attempt has failed: remedy runs")
    expect(visit.page.locator("#step-flight")).to_contain_text("An attempt may take 30 seconds.")
    expect(visit.page.locator("#step-release")).to_contain_text("in finally")
    expect(visit.page.locator(".holds")).to_contain_text("When all steps have ended, however they did")
    visit.axe_in_both_themes(WIDE, PHONE)


def test_the_run_of_a_body_shows_the_graph_of_the_body(visit: Visit, driver: RunDriver, trip: UUID) -> None:
    driver.finish(trip, "flight", "pay")
    inner = shown(last_child(driver, trip))
    visit.open(f"/runs/{inner}?tab=graph")
    expect(visit.page.locator(".run-head")).to_contain_text("finally of")
    expect(visit.page.locator(".graph-stage")).to_be_visible()
    visit.page.wait_for_function("() => document.querySelector('pw-graph').states.isKnown")
    steps = visit.page.evaluate("() => document.querySelector('pw-graph').scene.graph.steps.ids")
    assert steps == ["release"]
    expect(visit.page.get_by_role("link", name="Compare with the run before")).to_have_count(0)
