"""What follows failed steps, and the last step, in a run of this process."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.authoring import describe
from pipeweave.errors import InvalidSpec, TaskError
from pipeweave.testing import RunResult, run_pipeline


class Calls(list[Any]):
    """Functions that note their calls."""

    def note(self, what: Any = None) -> Any:
        self.append(what)
        return what

    def fail(self, code: str = "BOOM") -> None:
        self.append(code)
        raise TaskError("it broke", code=code, retryable=False)


def ran(calls: Calls, *steps: dict[str, Any], pipelines: Any = (), **document: Any) -> RunResult:
    spec = {"id": "p", "steps": list(steps), **document}
    return run_pipeline(
        spec, {"order": 7}, tasks={"note": calls.note, "fail": calls.fail}, pipelines=pipelines
    )


def note(id: str, what: Any, **rules: Any) -> dict[str, Any]:
    return {"id": id, "task": "note", "params": {"what": what}, **rules}


def fail(id: str = "bad", **rules: Any) -> dict[str, Any]:
    return {"id": id, "task": "fail", "params": {}, **rules}


TELL = {"id": "tell", "steps": [note("said", "${input.error.code} of ${input.error.step}")]}


def test_a_run_that_takes_care_of_an_error_completes_its_step_with_its_output() -> None:
    calls = Calls()
    run = ran(
        calls,
        fail(onError={"steps": [note("mend", "${error.code} ${input.order}")]}),
        note("z", "${steps.bad}"),
    )
    bad = run.steps["bad"]
    assert (run.status, bad.status, bad.output) == ("completed", "completed", "BOOM 7")
    assert isinstance(bad.handled_error, TaskError) and bad.error is None
    assert bad.handler is not None and bad.handler.status == "completed"
    assert calls == ["BOOM", "BOOM 7", "BOOM 7"]


def test_the_first_rule_whose_condition_is_true_runs_and_a_pipeline_gets_the_error() -> None:
    calls = Calls()
    rules = [
        {"condition": "error.code == 'OTHER'", "steps": [note("other", "other")]},
        {"condition": "${error.step} == 'bad' && variables.on", "pipeline": "tell"},
        {"steps": [note("any", "any")]},
    ]
    run = ran(calls, fail(), error_handlers=rules, variables={"on": True}, pipelines=[TELL])
    assert (run.status, run.output) == ("completed", "BOOM of bad")


def test_what_is_not_called_was_tried_once() -> None:
    made = {"id": "made", "transform": "${1 / 0}", "onError": {"steps": [note("tries", "${error.attempts}")]}}
    mapped = {"id": "each", "task": "fail", "map": {"over": ["A"], "as": "code"}}
    run = ran(Calls(), made, {**mapped, "onError": {"steps": [note("of_map", "${error.attempts}")]}})
    assert [each.output for each in run.steps.values()] == [1, 1]


def test_what_is_not_handled_runs_and_the_step_fails_with_its_own_error() -> None:
    calls = Calls()
    run = ran(calls, fail(onError={"steps": [note("alert", "alert")], "handled": False}))
    assert (run.status, calls) == ("failed", ["BOOM", "alert"])
    assert describe(run.error).code == "BOOM"


def test_a_rule_whose_run_fails_leaves_the_step_its_own_error() -> None:
    calls = Calls()
    run = ran(calls, fail(onError={"steps": [{"id": "worse", "task": "fail", "params": {"code": "WORSE"}}]}))
    assert describe(run.error).code == "BOOM"
    assert run.steps["bad"].handler is not None and run.steps["bad"].handler.status == "failed"


def test_the_items_of_a_map_are_taken_care_of_together() -> None:
    calls = Calls()
    mapped = {"id": "each", "task": "fail", "map": {"over": ["A", "B"], "as": "code"}}
    run = ran(
        calls, {**mapped, "onError": {"steps": [note("mend", "${error.code}")]}}, note("z", "${steps.each}")
    )
    assert (run.status, calls) == ("completed", ["A", "B", "MAP_ITEMS_FAILED", "MAP_ITEMS_FAILED"])


def test_a_run_that_fails_takes_back_what_completed_and_then_does_what_always_follows() -> None:
    calls = Calls()
    run = ran(
        calls,
        note("a", "a", compensate={"steps": [note("undo_a", "undo ${steps.a}")]}),
        note("b", "b", compensate={"steps": [note("undo_b", "undo ${steps.b}")]}),
        fail(compensate={"steps": [note("undo_bad", "never")]}),
        **{"finally": {"steps": [note("out", "${run.outcome} ${status.bad} ${errors.bad.code} ${steps.a}")]}},
    )
    assert run.status == "failed"
    assert calls == ["a", "b", "BOOM", "undo b", "undo a", "failed failed BOOM a"]
    assert list(run.ending) == ["compensate:b", "compensate:a", "finally"]


def test_a_run_that_completes_takes_nothing_back() -> None:
    calls = Calls()
    run = ran(
        calls,
        note("a", "a", compensate={"steps": [note("undo", "undo")]}),
        **{"finally": {"steps": [note("out", "${run.outcome}")]}},
    )
    assert (run.status, calls) == ("completed", ["a", "completed"])


def test_what_follows_in_any_case_fails_a_run_that_would_have_completed() -> None:
    calls = Calls()
    run = ran(calls, note("a", "a"), **{"finally": {"steps": [fail("out")]}})
    assert run.status == "failed" and run.output is None
    assert describe(run.error).code == "FINALLY_FAILED"
    with pytest.raises(TaskError, match="at the end of the run"):
        run.raise_error()


def test_a_partial_run_stays_partial_when_what_follows_in_any_case_fails() -> None:
    calls = Calls()
    mapped = {"id": "each", "task": "fail", "map": {"over": ["A"], "as": "code", "failure": "partial"}}
    run = ran(
        calls, mapped, note("z", "z"), failureMode="partial-merge", **{"finally": {"steps": [fail("out")]}}
    )
    assert run.status == "partial"


def test_a_completed_run_has_no_error_though_a_member_of_a_block_failed() -> None:
    block = {"failure": "settle", "steps": [fail(), note("a", "a")]}
    rule = {"condition": "error.kind == 'PARALLEL'", "steps": [note("mend", "mend")]}
    run = ran(Calls(), {"id": "block", "parallel": block}, note("z", "z"), errorHandlers=[rule])
    assert (run.status, run.error) == ("completed", None)
    assert run.raise_error() is run


def test_a_step_fails_whose_run_fails_only_by_what_follows_in_any_case() -> None:
    untidy = {"id": "untidy", "steps": [note("a", "a")], "finally": {"steps": [fail("out")]}}
    retry = {"attempts": 2, "delayMs": 1, "retryOn": ["FINALLY_FAILED"]}
    run = ran(Calls(), {"id": "call", "pipeline": "untidy", "retry": retry}, pipelines=[untidy])
    step = run.steps["call"]
    assert (step.status, len(step.runs)) == ("failed", 2)
    raised = describe(step.error)
    assert (raised.code, raised.details["code"]) == ("CHILD_FAILED", "FINALLY_FAILED")
    assert raised.details["step"] is None


def test_a_pipeline_that_follows_must_be_defined() -> None:
    with pytest.raises(InvalidSpec, match="finally runs pipeline 'nowhere', which is not defined"):
        ran(Calls(), note("a", "a"), **{"finally": {"pipeline": "nowhere"}})


def test_in_a_body_a_step_is_taken_back_with_what_is_around_the_body() -> None:
    calls = Calls()
    undo = {"pipeline": "told", "params": {"all": "${steps.first} ${item} ${steps.a}"}}
    told = {"id": "told", "steps": [note("undo", "${input.all}")]}
    body = [note("a", "did", compensate=undo), fail("b")]
    run = ran(calls, note("first", "one"), {"id": "m", "map": {"over": [7], "steps": body}}, pipelines=[told])
    assert run.status == "failed"
    assert calls == ["one", "did", "BOOM", "one 7 did"]
