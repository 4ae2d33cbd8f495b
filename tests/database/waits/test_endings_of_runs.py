"""What follows the last step of a run: steps are taken back, and a pipeline runs in any case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, children, task_run
from support.handled_runs import call, last_child, letters, rule, store_remedy
from support.run_driver import PERMANENT, RunDriver, claim, finish_step, settle
from support.stored_values import VALUES

from pipeweave.errors import Conflict
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import deadlines, pausing, triggering
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import left_children
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import StepSpec, parse_spec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with pipelines `clean` and `undo` of one step, `cure`."""
    driver = RunDriver(database)
    store_remedy(driver, "clean")
    store_remedy(driver, "undo")
    return driver


CLEAN = call("clean", {"outcome": "${run.outcome}", "b": "${steps.b}", "status": "${status.b}"})


def begin(driver: RunDriver, *, back: tuple[str, ...] = (), **spec: Any) -> UUID:
    """Begin a run of `a`, `b` and `c`, of which some are taken back if it ends badly."""
    before: tuple[str, ...] = ()
    steps = []
    for name in "abc":
        undo = call("undo", {"what": name, "output": f"${{steps.{name}}}"}) if name in back else None
        steps.append(StepSpec(name, "noop", before, compensate=undo))
        before = (name,)
    driver.store_steps(*steps, **spec)
    return driver.trigger()


def verified(driver: RunDriver, run_id: UUID) -> list[Any]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


def test_a_pipeline_runs_when_all_steps_have_completed(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=CLEAN)
    driver.finish(run_id, "a", "b", "c", output=1)
    run = driver.run(run_id)
    assert (run.status, run.finished_at, run.ending["status"]) == ("error_handling", None, "completed")
    [clean] = children(driver, run_id)
    assert clean.input == {"outcome": "completed", "b": 1, "status": "completed"}
    driver.finish(clean.id, "cure")
    run = driver.run(run_id)
    assert (run.status, run.error_code) == ("completed", None)
    assert driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []
    assert verified(driver, run_id) == []


def test_steps_are_taken_back_the_last_one_first_when_the_run_fails(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a", "b", "c"), finally_call=CLEAN)
    driver.finish(run_id, "a", output="one")
    driver.finish(run_id, "b", output="two")
    driver.finish(run_id, "c", failure=PERMANENT)
    assert driver.run(run_id).ending["parts"] == ["compensate:b", "compensate:a", "finally"]
    for what, output in (("b", "two"), ("a", "one")):
        assert driver.run(last_child(driver, run_id)).input == {"what": what, "output": output}
        driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(last_child(driver, run_id)).input == {
        "outcome": "failed",
        "b": "two",
        "status": "completed",
    }
    driver.finish(last_child(driver, run_id), "cure")
    run = driver.run(run_id)
    assert (run.status, run.error_code, run.error["stepId"]) == ("failed", "STEP_FAILED", "c")
    assert verified(driver, run_id) == []


def test_nothing_is_taken_back_when_the_run_completes(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a",))
    driver.finish(run_id, "a", "b", "c")
    assert driver.run(run_id).status == "completed"
    assert children(driver, run_id) == []


def test_a_run_that_fails_before_any_step_that_is_taken_back_ends_at_once(driver: RunDriver) -> None:
    run_id = begin(driver, back=("b",))
    driver.finish(run_id, "a", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    assert [
        each.type
        for each in driver.rows(
            "SELECT type FROM events WHERE run_id = :id ORDER BY seq DESC LIMIT 1", id=run_id
        )
    ] == ["run.failed"]
    assert verified(driver, run_id) == []


def test_a_run_that_goes_on_after_a_failure_takes_back_what_completed(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("a", "noop", compensate=call("undo", {"what": "a"})),
        StepSpec("b", "noop"),
        failure_mode="continue",
    )
    run_id = driver.trigger()
    driver.finish(run_id, "b", failure=PERMANENT)
    driver.finish(run_id, "a")
    assert driver.run(run_id).ending["parts"] == ["compensate:a"]
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).status == "failed"


def test_one_that_cannot_be_taken_back_does_not_stop_the_others(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a", "b"))
    driver.finish(run_id, "a", "b")
    driver.finish(run_id, "c", failure=PERMANENT)
    inner = last_child(driver, run_id)
    driver.finish(inner, "cure", failure=PERMANENT)
    driver.finish(last_child(driver, run_id), "cure")
    [error] = driver.run(run_id).error["compensationErrors"]
    assert (error["step"], error["code"]) == ("b", "STEP_FAILED")
    assert driver.run(run_id).error_code == "STEP_FAILED"
    assert len(letters(driver, inner)) == 1


def test_a_completed_run_fails_when_what_runs_at_its_end_fails(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=CLEAN)
    driver.finish(run_id, "a", "b", "c")
    driver.finish(last_child(driver, run_id), "cure", failure=PERMANENT)
    run = driver.run(run_id)
    assert (run.status, run.error_code) == ("failed", "FINALLY_FAILED")
    assert run.error["finallyError"]["code"] == "STEP_FAILED"
    assert verified(driver, run_id) == []


def test_a_failed_run_keeps_its_error_when_what_runs_at_its_end_cannot_start(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=call("nowhere"))
    driver.finish(run_id, "a", failure=PERMANENT)
    run = driver.run(run_id)
    assert (run.status, run.error_code) == ("failed", "STEP_FAILED")
    assert run.error["finallyError"]["code"] == "NOT_FOUND"


def test_a_cancel_lets_the_ending_run(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a",), finally_call=CLEAN)
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id, reason="enough", by="ann")
    assert driver.statuses(run_id) == {"a": "completed", "b": "cancelled", "c": "cancelled"}
    assert driver.run(run_id).status == "error_handling"
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(last_child(driver, run_id)).input["outcome"] == "cancelled"
    driver.finish(last_child(driver, run_id), "cure")
    run = driver.run(run_id)
    assert (run.status, run.error) == ("cancelled", {"code": "CANCELLED", "message": "enough", "by": "ann"})
    [ending] = driver.events(run_id, "run.ending")
    assert ending.data["by"] == "ann"
    assert verified(driver, run_id) == []


def test_a_cancel_now_lets_nothing_follow(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a",), finally_call=CLEAN)
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id, now=True)
    assert driver.run(run_id).status == "cancelled"
    assert children(driver, run_id) == []


@pytest.mark.parametrize(("fails", "status"), [(True, "failed"), (False, "cancelled")])
def test_a_cancel_of_an_ending_ends_the_run_at_once(driver: RunDriver, fails: bool, status: str) -> None:
    run_id = begin(driver, finally_call=CLEAN)
    driver.finish(run_id, "a", "b")
    driver.finish(run_id, "c", failure=PERMANENT if fails else None)
    clean = last_child(driver, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id, reason="enough")
    run = driver.run(run_id)
    assert run.status == status
    assert driver.run(clean).error_code == "PARENT_ENDED"
    if fails:
        assert run.error["finallyError"] == {"code": "CANCELLED", "message": "enough"}
    assert driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []
    assert verified(driver, run_id) == []


def test_a_time_limit_lets_the_ending_run_and_does_not_bind_it(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=CLEAN, timeout_ms=1)
    with driver.database.transaction() as tx:
        assert deadlines.time_out_run(tx, driver.tenant, run_id, deadlines.RUN_TIMEOUT, "too long")
    assert driver.run(run_id).status == "error_handling"
    with driver.database.transaction() as tx:
        assert not deadlines.time_out_run(tx, driver.tenant, run_id, deadlines.RUN_TIMEOUT, "too long")
        late = tx.execute(deadlines._LATE, deadlines.parameters(tx.now, timedelta(0)) | {"batch": 1000})
        assert run_id not in [row.id for row in late]
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).error_code == "RUN_TIMEOUT"


def test_an_ending_that_takes_too_long_is_cut(driver: RunDriver) -> None:
    run_id = begin(driver, back=("a",), finally_call=CLEAN, finally_timeout_ms=1)
    driver.finish(run_id, "a")
    driver.finish(run_id, "b", failure=PERMANENT)
    while driver.run(run_id).status == "error_handling":
        look(driver.database, VALUES, [(run_id, run_id)])
    run = driver.run(run_id)
    assert (run.status, run.error_code) == ("failed", "STEP_FAILED")
    assert run.error["compensationErrors"][0]["code"] == run.error["finallyError"]["code"] == "WAIT_TIMEOUT"
    assert all(each.status == "cancelled" for each in children(driver, run_id))


def test_a_paused_run_can_be_cancelled_and_an_ending_cannot_be_paused(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=CLEAN)
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    assert driver.run(run_id).status == "error_handling"
    with driver.database.transaction() as tx, pytest.raises(Conflict):
        pausing.pause(tx, driver.tenant, run_id)
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).status == "cancelled"
    assert verified(driver, run_id) == []


def test_the_last_step_of_a_paused_run_ends_nothing_before_it_is_resumed(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), finally_call=call("clean"))
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
    assert started is not None
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    with driver.database.transaction() as tx:
        settle(tx, started)
    assert (driver.run(run_id).status, driver.statuses(run_id)) == ("paused", {"a": "completed"})
    with driver.database.transaction() as tx:
        pausing.resume(tx, driver.tenant, run_id)
    assert driver.run(run_id).status == "error_handling"
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).status == "completed"


def test_a_run_that_never_began_has_no_ending(driver: RunDriver) -> None:
    driver.rows("UPDATE tenants SET max_active_runs = 1 WHERE id = :id RETURNING 1", id=driver.tenant)
    first = begin(driver, finally_call=CLEAN)
    second = driver.trigger()
    assert driver.run(second).status == "pending"
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, second)
    assert driver.run(second).status == "cancelled"
    assert driver.run(first).status == "running"


def test_a_process_that_dies_after_any_commit_of_an_ending_is_healed_by_what_is_due(
    driver: RunDriver,
) -> None:
    run_id = begin(driver, back=("a",), finally_call=CLEAN)
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        finish_step(tx, run_id, "b", failure=PERMANENT)
        tx._after.clear()
    for _ in range(2):
        before = len(children(driver, run_id))
        while len(children(driver, run_id)) == before:
            look(driver.database, VALUES, [(run_id, run_id)])
        with driver.database.transaction() as tx:
            finish_step(tx, last_child(driver, run_id), "cure")
            tx._after.clear()
    assert driver.run(run_id).status == "error_handling"
    look(driver.database, VALUES, [(run_id, run_id)])
    assert driver.run(run_id).status == "failed"
    assert len(children(driver, run_id)) == 2


def test_nothing_looks_for_joins_of_a_run_in_its_ending(driver: RunDriver) -> None:
    run_id = begin(driver, finally_call=CLEAN)
    driver.finish(run_id, "a", "b", "c")
    with driver.database.transaction() as tx:
        run = run_headers.load(tx, run_id)
        assert run is not None
        assert closed_joins(tx, {run_id: run.plan}) == []
    driver.check(run_id, 0)
    assert driver.run(run_id).status == "error_handling"
    assert len(children(driver, run_id)) == 1


def test_a_child_whose_parent_ended_has_its_own_ending(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("work", "noop"), id="inner", finally_call=call("clean"))
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = last_child(driver, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    assert driver.run(run_id).status == "cancelled"
    assert driver.run(inner).status == "error_handling"
    for _ in range(3):
        left_children.check(driver.database)
    assert driver.run(inner).status == "error_handling"
    driver.finish(last_child(driver, inner), "cure")
    assert (driver.run(inner).status, driver.run(inner).error_code) == ("cancelled", "PARENT_ENDED")


def test_a_step_whose_error_was_handled_is_not_taken_back(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("a", "noop", on_error=rule("undo"), compensate=call("undo")), StepSpec("b", "noop", ("a",))
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.finish(last_child(driver, run_id), "cure")
    driver.finish(run_id, "b", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    assert len(children(driver, run_id)) == 1


def test_steps_at_the_end_see_how_the_run_ends_and_all_its_steps(driver: RunDriver) -> None:
    seen = {"how": "${run.outcome}", "a": "${steps.a}", "b": "${status.b}", "why": "${errors.b.code}"}
    document = {
        "id": "trip",
        "finally": [{"id": "clean", "transform": seen}],
        "steps": [
            {"id": "a", "task": "noop", "compensate": [{"id": "undo", "transform": {"of": "${steps.a}"}}]},
            {"id": "b", "task": "noop"},
        ],
    }
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document), source="api")
    run_id = driver.trigger("trip")
    driver.finish(run_id, "a", output=5)
    driver.finish(run_id, "b", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    undo, clean = children(driver, run_id)
    assert (undo.body, task_run(driver, undo.id, "undo").output) == ("a.compensate", {"of": 5})
    assert task_run(driver, clean.id, "clean").output == {
        "how": "failed",
        "a": 5,
        "b": "failed",
        "why": "BOOM",
    }
    assert verified(driver, run_id) == []


def test_in_a_body_a_step_is_taken_back_with_what_is_around_the_body(driver: RunDriver) -> None:
    named = {"before": "${steps.first}", "of": "${steps.a}", "b": "${status.b}", "round": "${loop.index}"}
    undo = {"pipeline": "undo", "params": named}
    inner = [{"id": "a", "task": "noop", "compensate": undo}, {"id": "b", "task": "noop"}]
    document = {
        "id": "trips",
        "steps": [
            {"id": "first", "task": "noop"},
            {"id": "rounds", "needs": [], "loop": {"maxIterations": 1, "steps": inner}},
        ],
    }
    spec = parse_spec(document)
    assert spec.by_id["rounds"].needs == ("first",)
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, spec, source="api")
    run_id = driver.trigger("trips")
    driver.finish(run_id, "first", output="done")
    body = last_child(driver, run_id)
    driver.finish(body, "a", output=5)
    driver.finish(body, "b", failure=PERMANENT)
    expected = {"before": "done", "of": 5, "b": "failed", "round": 0}
    assert driver.run(last_child(driver, body)).input == expected
    driver.finish(last_child(driver, body), "cure")
    assert driver.run(run_id).status == "failed"
