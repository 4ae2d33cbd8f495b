"""A wait is a span with its kind, and a run that a step runs is a span below that of the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.run_driver import Clock, RunDriver
from support.suspended_runs import SuspendedRuns
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.telemetry import traces
from pipeweave.orchestrator.telemetry.traces import TraceSpan
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000


@pytest.fixture
def driver(isolated_driver: RunDriver) -> Iterator[RunDriver]:
    traces.begin(isolated_driver.database)
    yield isolated_driver


def spans_of(driver: RunDriver, run_id: UUID) -> dict[str, TraceSpan]:
    """The spans of a run that were sent now, by name and step."""
    sent: list[TraceSpan] = []

    def send(spans: Sequence[TraceSpan]) -> bool:
        sent.extend(spans)
        return True

    while traces.run_once(driver.database, send):
        pass
    shown = ids.show(ids.RUN, run_id)
    mine = [each for each in sent if each.attributes.get("runId") == shown]
    named = {_short(each): each for each in mine}
    assert len(named) == len(mine)
    return named


def _short(span: TraceSpan) -> str:
    return f"{span.name.removeprefix('orchestrator.')} {span.attributes.get('stepId', '')}"


def test_a_step_that_waits_is_a_span_below_its_run(driver: RunDriver, clock: Clock) -> None:
    runs = WaitingRuns(driver)
    run_id = runs.begin({"sleep": Sleep(ms=DAY_MS), "paid": SignalWait(("paid",))})
    runs.send(run_id, "paid")
    clock.ahead = timedelta(days=1, seconds=1)
    runs.look(run_id, "sleep")
    driver.finish(run_id, "end")
    spans = spans_of(driver, run_id)
    assert sorted(spans) == ["run ", "step end", "step start", "wait paid", "wait sleep"]
    run = spans["run "]
    for step, kind in (("paid", "signal"), ("sleep", "timer")):
        wait = spans[f"wait {step}"]
        assert (wait.attributes["waitKind"], wait.attributes["status"]) == (kind, "completed")
        assert (wait.trace_id, wait.parent_id, wait.error) == (run.trace_id, run.span_id, None)
    sleep = spans["wait sleep"]
    assert sleep.ended_at - sleep.started_at >= timedelta(days=1)


def test_a_wait_that_ends_badly_is_an_error(driver: RunDriver, clock: Clock) -> None:
    runs = WaitingRuns(driver)
    run_id = runs.begin({"ok": Approval("Ship?", timeout_ms=DAY_MS), "sleep": Sleep(ms=7 * DAY_MS)})
    clock.ahead = timedelta(days=2)
    runs.look(run_id, "ok")
    spans = spans_of(driver, run_id)
    failed, cancelled = spans["wait ok"], spans["wait sleep"]
    assert (failed.attributes["waitKind"], failed.attributes["errorCode"]) == ("approval", "WAIT_TIMEOUT")
    assert failed.error is not None and failed.error.startswith("WAIT_TIMEOUT: nobody decided")
    assert (cancelled.attributes["status"], cancelled.error) == ("cancelled", None)


def test_a_call_that_goes_on_elsewhere_has_its_wait_below_its_attempt(
    driver: RunDriver, clock: Clock
) -> None:
    suspended = SuspendedRuns(driver)
    run_id = suspended.begin()
    clock.ahead = timedelta(hours=1)
    suspended.report(run_id, 5)
    spans = spans_of(driver, run_id)
    wait, attempt = spans["wait ask"], spans["step ask"]
    assert (wait.parent_id, wait.attributes["waitKind"]) == (attempt.span_id, "callback")
    assert wait.span_id != attempt.span_id
    assert attempt.started_at <= wait.started_at <= wait.ended_at <= attempt.ended_at


def test_a_run_that_a_step_runs_is_below_the_span_of_the_step(driver: RunDriver) -> None:
    driver.store({"work": []}, id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    driver.finish(inner, "work")
    outer_spans = spans_of(driver, run_id)
    assert outer_spans["wait call"].attributes["waitKind"] == "child"
    driver.rows("UPDATE feed_consumers SET before = '0', open = '{}' WHERE name = 'traces' RETURNING 1")
    inner_run = spans_of(driver, inner)["run "]
    assert inner_run.parent_id == outer_spans["wait call"].span_id
    assert inner_run.trace_id == outer_spans["run "].trace_id


def test_the_waits_of_a_cancelled_run_have_ended(driver: RunDriver) -> None:
    driver.store({"work": []}, id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    wait = spans_of(driver, run_id)["wait call"]
    assert (wait.attributes["status"], wait.attributes["waitKind"]) == ("cancelled", "child")
