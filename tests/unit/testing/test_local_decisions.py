"""`pipeweave.testing` decides conditions, choices, joins and failures as a run does."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Retry, TaskError, either, otherwise, pipeline, settle, task, transform, when
from pipeweave.errors import ExpressionFailed, InvalidReference
from pipeweave.testing import RunResult, run_pipeline

CALLED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


@task
def act(name: str, value: Any = None) -> dict[str, Any]:
    CALLED.append(name)
    return {"name": name, "value": value}


@task(retries=0)
def fail(name: str) -> dict[str, Any]:
    CALLED.append(name)
    raise TaskError(f"{name} failed", code="BROKEN", details={"at": name})


def statuses(result: RunResult) -> dict[str, str]:
    return {step_id: each.status for step_id, each in result.steps.items()}


@pipeline
def route(total: int, way: str | None = None) -> Any:
    with when(total > 100, step_id="size", name="large"):
        checked = act.options(step_id="check")("check", total)
    with otherwise(total > 10, name="middle"):
        act.options(step_id="note")("note")
    with when(either(checked["value"], 0) > 1_000):
        act.options(step_id="alarm")("alarm")
    act.options(step_id="always", needs=["size"])("always")
    return {"checked": checked["value"], "way": way}


@pytest.mark.parametrize(
    ("total", "called"),
    [
        (5, {"always"}),
        (50, {"note", "always"}),
        (500, {"check", "always"}),
        (5_000, {"check", "alarm", "always"}),
    ],
)
def test_a_run_takes_the_branch_of_the_first_true_condition(total: int, called: set[str]) -> None:
    result = run_pipeline(route, {"total": total})
    assert result.status == "completed"
    assert set(CALLED) == called
    assert result.output == {"checked": total if total > 100 else None, "way": None}
    assert result.steps["size"].output == ("large" if total > 100 else "middle" if total > 10 else None)


def test_a_call_of_the_pipeline_leaves_out_the_blocks_that_are_not_taken() -> None:
    assert route(50, way="b") == {"checked": None, "way": "b"}
    assert set(CALLED) == {"note", "always"}


def test_a_call_of_a_plain_pipeline_calls_its_function() -> None:
    @pipeline(id="plain")
    def plain(name: str) -> Any:
        return act(name)["name"]

    assert plain("x") == "x"


def test_a_call_of_a_pipeline_raises_the_error_of_its_run() -> None:
    @pipeline(id="failing")
    def failing(x: int) -> Any:
        with when(x > 1):
            fail("a")

    assert failing(1) is None
    with pytest.raises(TaskError, match="a failed"):
        failing(2)


def test_a_step_whose_condition_is_false_is_passed_over() -> None:
    @pipeline(id="passing")
    def passing(x: int | None) -> Any:
        a = act.options(step_id="a", condition=x > 1)("a")  # type: ignore[operator]
        return act.options(step_id="b", needs=[a])("b", a)

    result = run_pipeline(passing, {"x": None})
    assert statuses(result) == {"a": "skipped", "b": "completed"}
    assert result.steps["a"].is_passed_over
    assert result.output == {"name": "b", "value": None}


@pytest.mark.parametrize(
    ("condition", "error", "why"),
    [
        ("input.x + 1", ExpressionFailed, "a condition gives true, false or null"),
        ("steps.a.nmae == 'a'", InvalidReference, "did you mean 'name'"),
        ("input.x / 0 == 1", ExpressionFailed, "zero"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_fails_the_step(
    condition: str, error: type[Exception], why: str
) -> None:
    document = {
        "id": "wrong",
        "steps": [
            {"id": "a", "task": "act", "params": {"name": "a"}},
            {"id": "b", "task": "act", "condition": condition, "params": {"name": "b"}},
        ],
    }
    result = run_pipeline(document, {"x": 1}, tasks=[act])
    assert statuses(result) == {"a": "completed", "b": "failed"}
    with pytest.raises(error, match=why):
        result.raise_error()


def test_a_tolerated_failure_is_passed_over_and_told_to_expressions() -> None:
    @pipeline(id="tolerant")
    def tolerant() -> Any:
        a = fail.options(step_id="a", continue_on_error=True, retry=Retry(attempts=2))("a")
        b = act.options(step_id="b", needs=[a], condition="errors.a.code == 'BROKEN'")("b", a)
        return transform({"error": "${errors.a}", "status": "${status.a}", "b": b["name"]}, step_id="shown")

    result = run_pipeline(tolerant)
    assert (result.status, result.error) == ("completed", None)
    assert CALLED == ["a", "a", "b"]
    assert result.steps["a"].delays_ms == [1_000]
    assert result.output == {
        "error": {
            "step": "a",
            "code": "BROKEN",
            "message": "Max retries (2) exceeded for step a: a failed",
            "kind": "MAX_RETRIES_EXCEEDED",
            "attempts": 2,
            "details": {"at": "a"},
        },
        "status": "failed",
        "b": "b",
    }


def test_all_steps_of_a_settled_block_end_before_it_fails() -> None:
    @pipeline(id="settled")
    def settled() -> Any:
        with settle() as everywhere:
            fail.options(step_id="a")("a")
            b = act.options(step_id="b")("b")
            act.options(step_id="c", needs=[b])("c")
        act.options(step_id="after")("after", everywhere)

    result = run_pipeline(settled)
    assert set(CALLED) == {"a", "b", "c"}
    assert statuses(result) == {
        "a": "failed",
        "b": "completed",
        "c": "completed",
        "gather": "failed",
        "after": "cancelled",
    }
    error = result.steps["gather"].error
    assert isinstance(error, TaskError)
    assert error.task_code == "PARALLEL_FAILED"
    assert error.details == {"failures": [{"code": "BROKEN", "message": "a failed", "step": "a"}]}
    fine = run_pipeline(settled, tasks={"fail": lambda name: name})
    assert fine.steps["gather"].output == {
        "a": "a",
        "b": {"name": "b", "value": None},
        "c": {"name": "c", "value": None},
    }


def test_a_settled_block_passes_over_the_failures_that_its_steps_tolerate() -> None:
    @pipeline(id="settled")
    def settled() -> Any:
        with settle():
            fail.options(step_id="a", continue_on_error=True)("a")
            act.options(step_id="b")("b")

    result = run_pipeline(settled)
    assert result.status == "completed"
    assert result.output == {"a": None, "b": {"name": "b", "value": None}}


@pytest.mark.parametrize(("mode", "status"), [("continue", "skipped"), ("partial-merge", "completed")])
def test_a_failure_before_a_settled_block_is_told_by_the_failure_mode(mode: str, status: str) -> None:
    @pipeline(id="settled")
    def settled() -> Any:
        before = fail.options(step_id="before")("before")
        with settle():
            act.options(step_id="a", needs=[before])("a")
            act.options(step_id="b")("b")
        act.options(step_id="after", needs=["gather"])("after")

    result = run_pipeline(settled, failure_mode=mode)
    assert (result.steps["gather"].status, result.steps["after"].status) == (status, status)
    assert result.steps["gather"].follows_failure == (status == "skipped")


@pytest.mark.parametrize(
    ("join", "status"), [("all", "skipped"), ("all-done", "completed"), ("any", "completed"), (2, "skipped")]
)
def test_a_join_rule_says_when_a_step_runs_after_failures(join: Any, status: str) -> None:
    @pipeline(id="joined", failure_mode="continue")
    def joined() -> Any:
        a = act.options(step_id="a")("a")
        b = fail.options(step_id="b")("b")
        act.options(step_id="c", needs=[a, b], join=join)("c")

    result = run_pipeline(joined)
    assert statuses(result)["c"] == status
    assert result.status == "failed"


def test_a_transform_makes_a_value_or_fails_as_it_says() -> None:
    @pipeline(id="made", variables={"limit": 3, "twice": "${input.n * 2}"})
    def made(n: int) -> Any:
        rows = act.options(step_id="rows")("rows", [1, 2, 3])
        return transform(
            {"sum": "${sum(steps.rows.value)}", "twice": "${variables.twice}", "text": "n is ${input.n}"},
            fail_if=[("input.n > variables.limit", "TOO_LARGE", "${input.n} is too large")],
            needs=[rows],
        )

    assert run_pipeline(made, {"n": 2}).output == {"sum": 6, "twice": 4, "text": "n is 2"}
    error = run_pipeline(made, {"n": 4}).error
    assert isinstance(error, TaskError)
    assert (error.task_code, str(error)) == ("TOO_LARGE", "4 is too large")


def test_a_value_that_is_too_large_for_a_row_fails_the_transform() -> None:
    @pipeline(id="large")
    def large(text: str) -> Any:
        return transform({"text": text})

    error = run_pipeline(large, {"text": "x" * 40_000}).error
    assert isinstance(error, TaskError)
    assert error.task_code == "RESULT_TOO_LARGE"


def test_items_of_a_tolerated_map_all_run() -> None:
    @pipeline(id="mapped")
    def mapped(names: list[str]) -> Any:
        rows = fail.options(continue_on_error=True).map(names)
        return act("after", rows)

    result = run_pipeline(mapped, {"names": ["a", "b"]})
    assert CALLED == ["a", "b", "after"]
    assert result.status == "completed"
