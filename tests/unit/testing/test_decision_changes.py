"""What the rules of a run decide otherwise with a definition of today, given what its steps came to then."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.authoring import TaskSpec
from pipeweave.spec import parse_spec
from pipeweave.testing.decision_changes import Decided, decided_again
from pipeweave.testing.recorded_run import RecordedRun

AT = "2026-03-01T10:00:00.000Z"


def step(id: str, status: str = "completed", output: Any = None, **members: Any) -> dict[str, Any]:
    usual = {"kind": "task", "attempt": 1, "maxAttempts": 1, "mapIndex": None, "mapCount": None}
    ends = {"finishedAt": AT, "errorCode": None, "error": None, "selectedNext": None, "attempts": []}
    return {**usual, **ends, "stepId": id, "taskId": id, "status": status, "output": output, **members}


def failed_attempt(number: int, code: str = "BOOM") -> dict[str, Any]:
    return {"number": number, "status": "failed", "errorCode": code, "error": {"message": "no"}}


def record(*steps: dict[str, Any], input: Any = None, **members: Any) -> RecordedRun:
    run = {
        "id": "prun_1",
        "status": "completed",
        "failureMode": "fail-fast",
        "createdAt": AT,
        "finishedAt": AT,
        "body": None,
        "edits": None,
        "triggeredBy": {"kind": "schedule", "id": "daily", "actor": None},
        "input": {} if input is None else input,
        **members,
    }
    return RecordedRun.of(run, steps)


def task(id: str, *needs: str, **members: Any) -> dict[str, Any]:
    return {"id": id, "task": id, "needs": list(needs), **members}


def compared(
    kept: RecordedRun,
    now: list[dict[str, Any]],
    before: list[dict[str, Any]] | None = None,
    options: dict[str, TaskSpec] | None = None,
) -> Decided:
    today, then = (parse_spec({"id": "p", "steps": each}) for each in (now, before or now))
    return decided_again(kept, today, None if before is None else then, options)


def said(decided: Decided) -> list[str]:
    return [f"{each.step}: {each.said}" for each in decided.changes]


A = {"a": [1, 2], "n": 5, "ok": True}


@pytest.mark.parametrize("before", [None, "same"])
def test_what_is_decided_as_then_is_no_change(before: str | None) -> None:
    steps = [
        task("a"),
        task("b", "a", condition="steps.a.n > 3", params={"n": "${steps.a.n}"}),
        task("c", "a", condition="steps.a.n > 9"),
        task("d", "b", "c", map={"over": "${steps.a.a}"}),
    ]
    kept = record(
        step("a", output=A), step("b"), step("c", "skipped"), step("d", kind="map", mapCount=2, output=[1, 2])
    )
    decided = compared(kept, steps, steps if before else None)
    assert (decided.changes, decided.undecided) == ([], {})


def test_a_condition_that_is_true_now_lets_a_step_run_and_what_is_behind_it_is_not_decided() -> None:
    before = [task("a"), task("charge", "a", condition="steps.a.n > 9"), task("mail", "charge")]
    now = [task("a"), task("charge", "a", condition="steps.a.n > 3"), task("mail", "charge")]
    kept = record(step("a", output=A), step("charge", "skipped"), step("mail"))
    decided = compared(kept, now, before)
    assert said(decided) == ["charge: was skipped (its condition is false), now runs"]
    assert decided.undecided == {"behind charge": ["mail"]}


def test_a_condition_that_is_false_now_skips_a_step_and_those_behind_see_it() -> None:
    kept = record(step("a", output=A), step("b", output=1), step("c"), input={"go": False})
    now = [
        task("a"),
        task("b", "a", condition="input.go"),
        task("c", "b", condition='status.b == "completed"'),
    ]
    assert said(compared(kept, now)) == [
        "b: was completed, now is skipped (its condition is false)",
        "c: was completed, now is skipped (its condition is false)",
    ]


def test_a_condition_without_a_value_fails_its_step_before_it_begins() -> None:
    decided = compared(
        record(step("a", output=A), step("b")), [task("a"), task("b", "a", condition="steps.a.x > 1")]
    )
    (change,) = decided.changes
    assert change.said.startswith("was completed, now fails before it begins (")


def test_the_trigger_and_the_input_of_then_decide() -> None:
    now = [task("a", condition='trigger.type == "schedule" and input.go == 1')]
    assert compared(record(step("a"), input={"go": 1}), now).changes == []


def test_a_map_of_another_size_is_named_with_both_sizes() -> None:
    kept = record(step("a", output=A), step("m", kind="map", mapCount=2, output=[1, 2]), step("z"))
    decided = compared(kept, [task("a"), task("m", "a", map={"over": [1, 2, 3]}), task("z", "m")])
    assert said(decided) == ["m: was mapped into 2 items, now into 3"]
    assert decided.undecided == {"behind m": ["z"]}


def test_an_empty_map_is_as_it_was() -> None:
    kept = record(step("m", kind="map", mapCount=None, output=[]))
    assert compared(kept, [task("m", map={"over": []})]).changes == []


def test_params_are_compared_by_their_values_for_each_item() -> None:
    kept = record(step("a", output=A), step("m", kind="map", mapCount=2, output=[1, 2]))
    steps = [
        [
            task("a", params={"x": 1}),
            task("m", "a", map={"over": "${steps.a.a}"}, params={"v": value, "key": "${secret.KEY}"}),
        ]
        for value in ("${item}", "${mapIndex}", "${item}")
    ]
    (change,) = compared(kept, steps[1], steps[0]).changes
    assert (change.what, [each["v"] for each in change.then], [each["v"] for each in change.now]) == (
        "params",
        [1, 2],
        [0, 1],
    )
    assert compared(kept, steps[2], steps[0]).changes == []
    assert compared(kept, steps[1]).changes == [], "nothing tells the params of then"


def test_params_that_were_edited_for_a_run_alone_are_not_compared() -> None:
    kept = record(step("a"), edits={"params": {"a": {"x": 2}}, "otherInput": []})
    assert compared(kept, [task("a", params={"x": 1})], [task("a", params={"x": 2})]).changes == []


def route(condition: str) -> list[dict[str, Any]]:
    cases = [
        {"name": "big", "condition": condition, "steps": [task("x")]},
        {"name": "small", "steps": [task("y")]},
    ]
    return [task("a"), {"id": "route", "needs": ["a"], "choice": cases}, task("z", "x", "y")]


def test_another_choice_is_named_and_the_branches_that_it_skips_and_takes() -> None:
    kept = record(
        step("a", output=A),
        step("route", kind="choice", output="small", selectedNext=["y"]),
        *(step("x", "skipped"), step("y"), step("z")),
    )
    assert compared(kept, route("steps.a.n > 9")).changes == []
    decided = compared(kept, route("steps.a.n > 3"), route("steps.a.n > 9"))
    assert said(decided) == [
        "route: chose y, now x",
        "x: was skipped (no step before it leads to it), now runs",
        "y: was completed, now is skipped (no step before it leads to it)",
    ]
    assert decided.undecided == {"behind x": ["z"]}


def loop(until: str) -> list[dict[str, Any]]:
    return [{"id": "l", "loop": {"steps": [task("t")], "until": until, "maxIterations": 5}}, task("z", "l")]


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("last.n >= 3", []),
        ("last.n >= 2", ["l: was over after 3 rounds, now after 2"]),
        ("last.n >= 4", ["l: was over after 3 rounds, now goes on after 3"]),
    ],
)
def test_the_rounds_of_a_loop_are_decided_again(until: str, words: list[str]) -> None:
    outputs = [{"n": 1}, {"n": 2}, {"n": 3}]
    run = record(step("l", kind="loop", output={"n": 3}), step("z"))
    kept = RecordedRun.of(run.run, [each.task_run for each in run.steps.values()], {"l": outputs})
    assert said(compared(kept, loop(until))) == words


def test_another_rule_for_an_error_is_named() -> None:
    failed = step("a", attempts=[failed_attempt(1)])
    handled = [task("a", onError={"steps": [task("h")]}), task("b", "a")]
    kept = record(failed, step("b"))
    assert compared(kept, handled, handled).changes == []
    plain = [task("a"), task("b", "a")]
    assert said(compared(kept, plain, handled)) == [
        "a: its error was taken care of by onError, now by nothing",
        "b: was completed, now is skipped (a step before it failed)",
    ]
    unhandled = record(step("a", "failed", errorCode="BOOM"), step("b", "cancelled"), status="failed")
    decided = compared(unhandled, handled, plain)
    assert said(decided) == ["a: its error was taken care of by nothing, now by onError"]
    assert decided.undecided == {"behind a": ["b"]}


def test_a_step_that_is_new_runs_and_one_that_is_gone_is_named() -> None:
    decided = compared(record(step("a"), step("old")), [task("a"), task("new", "a"), task("last", "new")])
    assert said(decided) == ["new: was not there, now runs", "old: was completed, now is gone"]
    assert decided.undecided == {"behind new": ["last"]}


def test_a_transform_is_made_again() -> None:
    now = [task("a"), {"id": "t", "transform": {"n": "${steps.a.n}"}, "needs": ["a"]}]
    kept = record(step("a", output=A), step("t", kind="transform", output={"n": 4}))
    (change,) = compared(kept, now).changes
    assert (change.step, change.what, change.then, change.now) == ("t", "output", {"n": 4}, {"n": 5})


def options(**of_task: Any) -> dict[str, TaskSpec]:
    return {"a": TaskSpec(id="a", code_hash="0" * 64, **of_task)}


@pytest.mark.parametrize(
    ("kept", "retries", "words"),
    [
        (
            step(
                "a",
                attempt=2,
                maxAttempts=3,
                attempts=[failed_attempt(1), {"number": 2, "status": "completed"}],
            ),
            0,
            "was tried again, now is final",
        ),
        (
            step("a", "failed", maxAttempts=1, attempts=[failed_attempt(1)], errorCode="BOOM"),
            0,
            None,
        ),
        (
            step("a", "failed", maxAttempts=3, attempts=[failed_attempt(1)], errorCode="BOOM"),
            2,
            "was final, now is tried again",
        ),
    ],
)
def test_a_retry_is_decided_again(kept: dict[str, Any], retries: int, words: str | None) -> None:
    steps = [task("a"), task("b", "a")]
    decided = compared(record(kept, step("b"), status="failed"), steps, options=options(retries=retries))
    changes = [each.said for each in decided.changes if each.what == "retries"]
    assert changes == ([] if words is None else [f"attempt 1 failed with BOOM: {words}"])


def test_a_failure_that_ends_the_run_no_more_lets_the_cancelled_steps_run() -> None:
    kept = record(step("a", "failed", errorCode="BOOM"), step("b"), step("c", "cancelled"), status="failed")
    steps = [task("a"), task("b"), task("c", "b")]
    assert compared(kept, steps).changes == []
    tolerant = [task("a", continueOnError=True), *steps[1:]]
    assert said(compared(kept, tolerant)) == ["c: was cancelled (the run had failed), now runs"]


def test_another_join_rule_lets_a_step_run() -> None:
    kept = record(
        step("a", "failed", errorCode="BOOM"), step("b"), step("z", "skipped"), failureMode="continue"
    )
    assert compared(kept, [task("a"), task("b"), task("z", "a", "b")]).changes == []
    decided = compared(kept, [task("a"), task("b"), task("z", "a", "b", join="any")])
    assert said(decided) == ["z: was skipped, now runs"]


def test_a_run_that_is_open_or_a_part_of_another_is_not_compared() -> None:
    assert "not all is decided" in str(record(finishedAt=None, status="running").why_not())
    assert "part of another run" in str(record(body="a.loop").why_not())
    assert "input is not in the record" in str(
        RecordedRun.of({**record().run, "input": None, "inputRef": {"path": "x"}}, []).why_not()
    )


def test_an_output_that_is_not_in_the_record_leaves_open_what_is_behind_it() -> None:
    kept = record(step("a", outputRef={"path": "x"}), step("b"))
    decided = compared(kept, [task("a"), task("b", "a", condition="steps.a.n > 3")])
    assert (decided.changes, decided.undecided) == ([], {"behind a": ["b"]})
