"""A run takes care of the error of a step: the step waits for it, and completes or fails by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, children, task_run
from support.engine_steps import choice, transform
from support.handled_runs import last_child, letters, rule, store_remedy
from support.run_driver import (
    PERMANENT,
    TRANSIENT,
    RunDriver,
    claim,
    finish_next_attempt,
    finish_step,
    finish_task_run,
    header,
    settle,
)
from support.stored_values import VALUES
from support.suspended_runs import SuspendedRuns

from pipeweave.errors import WaitOver
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import Case, MapSpec, SignalWait, StepRetry, StepSpec, engine_task, parse_spec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with a pipeline `remedy` of one step, `cure`."""
    driver = RunDriver(database)
    store_remedy(driver)
    return driver


def begin(driver: RunDriver, **rules: Any) -> UUID:
    """Begin a run of `first`, `work` with these rules, and `last`; `first` is done."""
    spec = {key: rules.pop(key) for key in ("failure_mode", "error_rules", "variables") if key in rules}
    driver.store_steps(
        StepSpec("first", "noop"),
        StepSpec("work", "noop", ("first",), **rules),
        StepSpec("last", "noop", ("work",)),
        **spec,
    )
    run_id = driver.trigger(input={"order": 7})
    driver.finish(run_id, "first", output="done")
    return run_id


def verified(driver: RunDriver, *run_ids: UUID) -> list[Any]:
    with verify.snapshot(driver.database) as tx:
        return [each for run_id in run_ids for each in verify.run(tx, run_id)]


PARAMS = {"code": "${error.code}", "order": "${input.order}", "before": "${steps.first}"}


def test_the_step_waits_for_the_run_and_completes_with_its_output(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy", PARAMS))
    driver.finish(run_id, "work", failure=PERMANENT)
    assert driver.statuses(run_id) == {"first": "completed", "work": "waiting", "last": "pending"}
    assert driver.run(run_id).status == "running"
    [cure] = children(driver, run_id)
    assert (cure.pipeline_id, cure.input) == ("remedy", {"code": "BOOM", "order": 7, "before": "done"})
    driver.finish(cure.id, "cure", output="instead")
    work = task_run(driver, run_id, "work")
    assert (work.status, work.output, work.error_code) == ("completed", "instead", "BOOM")
    driver.finish(run_id, "last")
    assert driver.run(run_id).status == "completed"
    assert letters(driver, run_id) == []
    [completed] = [
        each.data for each in driver.events(run_id, "task_run.completed") if each.task_run_id == work.id
    ]
    assert completed["handled"] is True
    [handling] = driver.events(run_id, "task_run.handling")
    assert (handling.data["errorCode"], handling.data["handler"]) == ("BOOM", "onError")
    assert verified(driver, run_id, cure.id) == []


def test_without_params_the_run_gets_the_error(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    driver.finish(run_id, "work", failure=PERMANENT)
    error = children(driver, run_id)[0].input["error"]
    assert error == {
        "step": "work",
        "code": "BOOM",
        "message": "it broke",
        "kind": "STEP_EXECUTION",
        "attempts": 1,
        "details": None,
    }


def test_attempts_come_first(driver: RunDriver) -> None:
    retry = StepRetry(attempts=2, delay_ms=1, backoff="fixed")
    run_id = begin(driver, on_error=rule("remedy"), retry=retry)
    driver.finish(run_id, "work", failure=TRANSIENT)
    assert children(driver, run_id) == []
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 2, failure=TRANSIENT)
    [cure] = children(driver, run_id)
    error = cure.input["error"]
    assert (error["attempts"], error["kind"], error["code"]) == (2, "MAX_RETRIES_EXCEEDED", "WEAK")
    assert error["message"] == "Max retries (2) exceeded for step work: it broke for now"
    driver.finish(cure.id, "cure")
    assert driver.statuses(run_id)["work"] == "completed"
    attempts = driver.rows(
        "SELECT number, status FROM attempts WHERE run_id = :id ORDER BY number", id=run_id
    )
    assert [tuple(each) for each in attempts] == [(1, "failed"), (2, "failed")]
    assert verified(driver, run_id) == []


def test_a_run_that_fails_leaves_the_step_its_own_error_and_a_dead_letter(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    driver.finish(run_id, "work", failure=PERMANENT)
    cure = last_child(driver, run_id)
    driver.finish(cure, "cure", failure=TRANSIENT)
    driver.rows("SELECT 1")
    while driver.run(cure).status == "running":
        with driver.database.transaction() as tx:
            finish_next_attempt(tx, cure, 1, failure=PERMANENT)
    work = task_run(driver, run_id, "work")
    assert (work.status, work.error_code, work.error["message"]) == ("failed", "BOOM", "it broke")
    assert work.error["handlerError"]["code"] == "STEP_FAILED"
    assert driver.run(run_id).status == "failed"
    [letter] = letters(driver, run_id)
    assert (letter.step_id, letter.error_code, len(letter.history)) == ("work", "BOOM", 1)
    assert verified(driver, run_id, cure) == []


def test_a_run_that_cannot_start_leaves_the_step_its_own_error(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("nowhere"))
    driver.finish(run_id, "work", failure=PERMANENT)
    work = task_run(driver, run_id, "work")
    assert (work.status, work.error_code) == ("failed", "BOOM")
    assert work.error["handlerError"]["code"] == "NOT_FOUND"
    assert verified(driver, run_id) == []


def test_a_rule_that_does_not_handle_lets_the_step_fail_after_its_run(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy", handled=False))
    driver.finish(run_id, "work", failure=PERMANENT)
    assert driver.statuses(run_id)["work"] == "waiting"
    driver.finish(last_child(driver, run_id), "cure")
    work = task_run(driver, run_id, "work")
    assert (work.status, work.error_code) == ("failed", "BOOM")
    assert "handlerError" not in work.error
    assert len(letters(driver, run_id)) == 1


def test_a_failure_that_is_tolerated_is_handled_first(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"), continue_on_error=True)
    driver.finish(run_id, "work", failure=PERMANENT)
    driver.finish(last_child(driver, run_id), "cure", failure=PERMANENT)
    assert driver.statuses(run_id)["work"] == "failed"
    driver.finish(run_id, "last")
    assert driver.run(run_id).status == "completed"
    assert letters(driver, run_id) == []


def test_the_first_rule_of_the_pipeline_whose_condition_is_true_takes_care(driver: RunDriver) -> None:
    store_remedy(driver, "other")
    rules = (
        rule("other", condition="${error.step} == 'first'"),
        rule("other", condition="error.details.reason == 'none'"),
        rule("remedy", condition="error.code in [variables.mine]"),
        rule("other"),
    )
    run_id = begin(driver, error_rules=rules, variables={"mine": "BOOM"})
    driver.finish(run_id, "work", failure=PERMANENT)
    assert children(driver, run_id)[0].pipeline_id == "remedy"
    [handling] = driver.events(run_id, "task_run.handling")
    assert handling.data["handler"] == "errorHandlers[2]"


def test_the_rule_of_the_step_wins_over_those_of_the_pipeline(driver: RunDriver) -> None:
    store_remedy(driver, "other")
    run_id = begin(driver, on_error=rule("remedy"), error_rules=(rule("other"),))
    driver.finish(run_id, "work", failure=PERMANENT)
    assert children(driver, run_id)[0].pipeline_id == "remedy"


def test_an_error_that_no_rule_is_for_fails_the_step(driver: RunDriver) -> None:
    run_id = begin(driver, error_rules=(rule("remedy", condition="error.code == 'OTHER'"),))
    driver.finish(run_id, "work", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    assert len(letters(driver, run_id)) == 1


def test_a_wait_that_is_over_is_handled(driver: RunDriver) -> None:
    wait = SignalWait(("paid",), timeout_ms=1)
    driver.store_steps(
        StepSpec("pay", engine_task(wait), decides=wait, on_error=rule("remedy")),
        StepSpec("end", "noop", ("pay",)),
    )
    run_id = driver.trigger()
    key = (run_id, task_run(driver, run_id, "pay").id)
    while not children(driver, run_id):
        look(driver.database, VALUES, [key])
    assert children(driver, run_id)[0].input["error"]["kind"] == "TIMEOUT"
    [row] = driver.rows("SELECT kind, names FROM waits WHERE run_id = :id", id=run_id)
    assert (row.kind, row.names) == ("child", None)
    driver.finish(last_child(driver, run_id), "cure", output=1)
    assert task_run(driver, run_id, "pay").output == 1
    assert verified(driver, run_id) == []


def test_a_step_that_the_engine_cannot_decide_is_handled(driver: RunDriver) -> None:
    driver.store_steps(
        transform("sum", "${input.a.b + 1}", on_error=rule("remedy")), StepSpec("end", "noop", ("sum",))
    )
    run_id = driver.trigger(input={"a": {}})
    assert driver.statuses(run_id)["sum"] == "waiting"
    driver.finish(last_child(driver, run_id), "cure", output=5)
    assert task_run(driver, run_id, "sum").output == 5
    assert driver.released(run_id) == [2]
    assert verified(driver, run_id) == []


def test_a_choice_that_was_handled_takes_no_branch(driver: RunDriver) -> None:
    driver.store_steps(
        replace(choice("which", Case("input.a.b", ("left",))), on_error=rule("remedy")),
        StepSpec("left", "noop", ("which",)),
        StepSpec("behind", "noop", ("which", "left")),
    )
    run_id = driver.trigger(input={"a": {}})
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.statuses(run_id) == {"which": "completed", "left": "skipped", "behind": "queued"}
    assert verified(driver, run_id) == []


def test_a_child_that_failed_is_handled(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(child("call", "inner", on_error=rule("remedy")))
    run_id = driver.trigger()
    inner = last_child(driver, run_id)
    driver.finish(inner, "work", failure=PERMANENT)
    error = children(driver, run_id)[-1].input["error"]
    assert (error["code"], error["details"]["step"]) == ("CHILD_FAILED", "work")
    driver.finish(last_child(driver, run_id), "cure", output="cured")
    assert task_run(driver, run_id, "call").output == "cured"
    assert driver.run(run_id).status == "completed"
    assert verified(driver, run_id, inner) == []


@pytest.mark.parametrize("mode", ["fail-fast", "continue"])
def test_the_items_of_a_map_are_handled_together(driver: RunDriver, mode: str) -> None:
    driver.store_steps(
        StepSpec("each", "noop", map=MapSpec([1, 2, 3]), on_error=rule("remedy")),
        StepSpec("end", "noop", ("each",), params={"all": "${steps.each}"}),
        failure_mode=mode,
    )
    run_id = driver.trigger()
    for ordinal, failure in ((3, PERMANENT), (4, None), (5, None)):
        assert children(driver, run_id) == []
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal, output=VALUES.keep(ordinal), failure=failure)
    [cure] = children(driver, run_id)
    assert cure.input["error"]["code"] == "MAP_ITEMS_FAILED"
    with driver.database.transaction() as tx:
        assert closed_joins(tx, {run_id: header(tx, run_id).plan}) == []
    driver.check(run_id, 1)
    assert len(children(driver, run_id)) == 1
    driver.finish(cure.id, "cure", output=["fallback"])
    assert driver.statuses(run_id) == {"each": "completed", "end": "queued"}
    driver.finish(run_id, "end")
    assert driver.run(run_id).status == "completed"
    assert [each.kind for each in letters(driver, run_id)] == ["item"]
    assert verified(driver, run_id) == []


def test_a_cancel_takes_the_run_that_takes_care_with_it(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    driver.finish(run_id, "work", failure=PERMANENT)
    cure = last_child(driver, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    assert driver.run(cure).error_code == "PARENT_ENDED"
    assert driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []
    assert verified(driver, run_id, cure) == []


def test_a_failure_of_another_step_ends_the_run_and_the_one_that_takes_care(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", on_error=rule("remedy")), StepSpec("b", "noop"))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    cure = last_child(driver, run_id)
    driver.finish(run_id, "b", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    assert driver.statuses(run_id)["a"] == "cancelled"
    assert driver.run(cure).error_code == "PARENT_ENDED"
    assert verified(driver, run_id) == []


def test_a_process_that_dies_after_any_commit_is_healed_by_what_is_due(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    with driver.database.transaction() as tx:
        finish_step(tx, run_id, "work", failure=PERMANENT)
        tx._after.clear()
    assert children(driver, run_id) == []
    key = (run_id, task_run(driver, run_id, "work").id)
    look(driver.database, VALUES, [key])
    cure = last_child(driver, run_id)
    with driver.database.transaction() as tx:
        finish_step(tx, cure, "cure", output=VALUES.keep(3))
        tx._after.clear()
    assert driver.statuses(run_id)["work"] == "waiting"
    assert look(driver.database, VALUES, [key]) == 1
    assert look(driver.database, VALUES, [key]) == 0
    assert task_run(driver, run_id, "work").output == 3


def test_the_slot_of_a_task_is_free_while_its_error_is_taken_care_of(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("a", "single", on_error=rule("remedy")), StepSpec("b", "single"), failure_mode="continue"
    )
    run_id = driver.trigger()
    assert driver.statuses(run_id) == {"a": "queued", "b": "ready"}
    driver.finish(run_id, "a", failure=PERMANENT)
    assert driver.statuses(run_id) == {"a": "waiting", "b": "queued"}


def test_a_late_report_of_the_failed_attempt_changes_nothing(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 2)
    assert started is not None
    with driver.database.transaction() as tx:
        settle(tx, started, failure=PERMANENT)
    for late in ({"failure": PERMANENT}, {"output": VALUES.keep(1)}):
        with driver.database.transaction() as tx:
            settle(tx, started, **late)  # type: ignore[arg-type]
    assert driver.statuses(run_id)["work"] == "waiting"
    assert len(children(driver, run_id)) == 1


def test_a_report_of_a_failure_that_is_handled_ended_its_attempt(driver: RunDriver) -> None:
    run_id = begin(driver, on_error=rule("remedy"))
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 2)
    assert started is not None
    with driver.database.transaction() as tx:
        turn = Turn(header(tx, run_id), [(started, PERMANENT)], "q", max_retry_delay_ms=None)
        assert turn.end_attempts(tx) == 1
    with driver.database.transaction() as tx:
        assert turn.end_attempts(tx) == 0


def test_only_one_of_several_steps_that_fail_at_once_needs_a_rule(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("a", "noop", on_error=rule("remedy")),
        StepSpec("b", "noop"),
        StepSpec("c", "noop", ("a", "b")),
        failure_mode="continue",
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.finish(run_id, "b", failure=PERMANENT)
    assert driver.run(run_id).status == "running"
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.statuses(run_id) == {"a": "completed", "b": "failed", "c": "skipped"}
    assert driver.run(run_id).status == "failed"


def test_the_steps_of_a_rule_see_the_error_and_what_their_step_sees(driver: RunDriver) -> None:
    document = {
        "id": "shop",
        "steps": [
            {"id": "first", "task": "noop"},
            {
                "id": "work",
                "task": "noop",
                "on_error": [
                    {"id": "shape", "transform": {"code": "${error.code}", "first": "${steps.first}"}},
                    {
                        "id": "tell",
                        "task": "noop",
                        "params": {"what": "${steps.shape}", "of": "${input.order}"},
                    },
                ],
            },
        ],
    }
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document), source="api")
    run_id = driver.trigger("shop", input={"order": 7})
    driver.finish(run_id, "first", output="done")
    driver.finish(run_id, "work", failure=PERMANENT)
    body = last_child(driver, run_id)
    assert (driver.run(body).body, driver.run(body).input) == ("work.onError", {"order": 7})
    assert task_run(driver, body, "shape").output == {"code": "BOOM", "first": "done"}
    driver.finish(body, "tell", output="told")
    assert task_run(driver, run_id, "work").output == "told"
    assert driver.run(run_id).status == "completed"
    assert verified(driver, run_id, body) == []


def test_in_a_body_the_pipeline_gets_what_is_around_the_body(driver: RunDriver) -> None:
    of_error = {"pipeline": "remedy", "params": {"code": "${error.code}", "before": "${steps.first}"}}
    inner = {"id": "inner", "task": "noop", "onError": of_error}
    document = {
        "id": "shop",
        "steps": [
            {"id": "first", "task": "noop"},
            {"id": "rounds", "loop": {"maxIterations": 1, "steps": [inner]}},
        ],
    }
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document), source="api")
    run_id = driver.trigger("shop")
    driver.finish(run_id, "first", output="done")
    body = last_child(driver, run_id)
    driver.finish(body, "inner", failure=PERMANENT)
    remedy = last_child(driver, body)
    assert driver.run(remedy).input == {"code": "BOOM", "before": "done"}
    driver.finish(remedy, "cure", output="cured")
    assert driver.run(run_id).status == "completed"


def test_a_report_after_the_time_of_its_call_is_refused_while_its_error_is_taken_care_of(
    driver: RunDriver,
) -> None:
    suspended = SuspendedRuns(driver)
    run_id = suspended.begin(step={"onError": "remedy", "retry": {"attempts": 1}})
    driver.rows(
        "UPDATE waits SET timeout_at = now(), due_at = now() WHERE run_id = :id RETURNING 1", id=run_id
    )
    while not children(driver, run_id):
        look(driver.database, VALUES, [(run_id, suspended.row(run_id).id)])
    with pytest.raises(WaitOver):
        suspended.report(run_id, 7)
    driver.finish(last_child(driver, run_id), "cure", output=8)
    assert suspended.row(run_id).output == 8
    assert verified(driver, run_id) == []
