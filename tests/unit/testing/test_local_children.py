"""`pipeweave.testing` runs the pipelines that steps run: once, in rounds, and for each item of a list."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Retry, TaskError, approval, loop, pipeline, sleep, task, wait_for_signal
from pipeweave.errors import InvalidInput, InvalidSpec, TooManyChildren
from pipeweave.spec import child_steps
from pipeweave.testing import run_pipeline

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    CALLS.clear()


@task(retries=0)
def take(value: Any) -> Any:
    CALLS.append(value)
    if value == "bad":
        raise TaskError("it is bad", code="BAD", retryable=False)
    return {"took": value}


@pipeline
def taking(value: Any, more: int = 7) -> Any:
    return take(value)


@pipeline
def add_one(n: Any) -> Any:
    return take(n)


def test_a_child_gets_the_params_and_its_output_is_that_of_the_step() -> None:
    @pipeline(id="outer")
    def outer(x: int) -> Any:
        return taking(x)

    result = run_pipeline(outer, {"x": 3})
    assert result.output == {"took": 3}
    [inner] = result.steps["taking"].runs
    assert (inner.status, inner.output) == ("completed", {"took": 3})
    assert inner.id.startswith("prun_")
    assert outer(4) == {"took": 4}


def test_a_document_runs_the_pipelines_that_the_test_gives_or_that_are_defined_here() -> None:
    document = {"id": "d", "steps": [{"id": "call", "pipeline": "taking", "params": {"value": 1}}]}
    assert run_pipeline(document).output == {"took": 1}
    other = {"id": "taking", "steps": [{"id": "made", "transform": {"is": "${input.value}"}}]}
    assert run_pipeline(document, pipelines=[other]).output == {"is": 1}
    unknown = {"id": "d", "steps": [{"id": "call", "pipeline": "nowhere"}]}
    with pytest.raises(InvalidSpec, match="step 'call' runs pipeline 'nowhere', which is not defined"):
        run_pipeline(unknown)


def test_a_failed_child_fails_its_step_and_says_where() -> None:
    @pipeline(id="outer")
    def outer() -> Any:
        return taking("bad")

    result = run_pipeline(outer)
    error = result.error
    assert isinstance(error, TaskError)
    [inner] = result.steps["taking"].runs
    assert error.task_code == "CHILD_FAILED"
    assert error.details == {
        "runId": inner.id,
        "code": "STEP_FAILED",
        "message": "step take failed: BAD: it is bad",
        "step": "take",
    }
    assert error.__cause__ is inner.error


@pytest.mark.parametrize("retry_on", [None, ["CHILD_FAILED"], ["STEP_FAILED"]])
def test_a_retried_step_runs_its_pipeline_again(retry_on: list[str] | None) -> None:
    def flaky(value: Any) -> Any:
        CALLS.append(value)
        if len(CALLS) < 3:
            raise TaskError("not yet", code="WEAK", retryable=False)
        return len(CALLS)

    @pipeline(id="outer")
    def outer() -> Any:
        return taking.options(retry=Retry(attempts=3, delay_ms=1000, backoff="fixed", retry_on=retry_on))(1)

    result = run_pipeline(outer, tasks={"take": flaky})
    assert result.output == 3
    assert [each.status for each in result.steps["taking"].runs] == ["failed", "failed", "completed"]
    assert result.waited_ms == 2000


def test_params_that_the_pipeline_refuses_fail_the_step() -> None:
    document = {"id": "d", "steps": [{"id": "call", "pipeline": "taking", "params": {"valeu": 1}}]}
    result = run_pipeline(document)
    assert "refuses the params of the step" in str(result.error)
    assert result.steps["call"].runs == []


def test_a_loop_ends_when_its_condition_is_true() -> None:
    @pipeline(id="outer")
    def outer() -> Any:
        return loop(
            add_one, (loop.index + 1) * 2, until=lambda out: out["took"] > 5, max_iterations=9, delay="1m"
        )

    result = run_pipeline(outer)
    assert (result.output, CALLS) == ({"took": 6}, [2, 4, 6])
    assert len(result.steps["add_one"].runs) == 3
    assert result.steps["add_one"].waited_ms == 120_000


def test_a_round_gets_what_the_round_before_gave_and_a_loop_may_collect_all() -> None:
    @pipeline(id="outer")
    def outer() -> Any:
        return loop(add_one, loop.last["took"], max_iterations=2, collect=True)

    assert run_pipeline(outer).output == [{"took": None}, {"took": None}]


def test_a_loop_that_never_ends_fails_at_its_limit() -> None:
    @pipeline(id="outer")
    def outer() -> Any:
        return loop(add_one, 1, until=lambda out: out["took"] > 5, max_iterations=2)

    error = run_pipeline(outer).error
    assert isinstance(error, TaskError)
    assert error.task_code == "LOOP_LIMIT"
    assert str(error) == "the condition of the loop was false after 2 rounds"


def test_a_map_runs_the_pipeline_for_each_item() -> None:
    @pipeline(id="outer", failure_mode="partial-merge")
    def outer(values: list[Any]) -> Any:
        return taking.map(values, more=1)

    result = run_pipeline(outer, {"values": ["a", "bad", "c"]})
    assert result.status == "partial"
    assert result.output == [{"took": "a"}, None, {"took": "c"}]
    items = result.steps["taking"].items
    assert [each.runs[0].status for each in items] == ["completed", "failed", "completed"]
    failed = run_pipeline(outer, {"values": ["bad", "bad"]}).error
    assert isinstance(failed, TaskError)
    assert failed.task_code == "MAP_ITEMS_FAILED"


def test_a_map_of_more_runs_than_it_may_have_runs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_steps, "MAX_CHILDREN", 2)

    @pipeline(id="outer")
    def outer(values: list[Any]) -> Any:
        return taking.map(values)

    error = run_pipeline(outer, {"values": [1, 2, 3]}).error
    assert isinstance(error, TooManyChildren)
    assert (error.errors[0].field, CALLS) == ("map.over", [])
    assert "batches" in str(error.hint)
    assert run_pipeline(outer, {"values": [1, 2]}).status == "completed"


@pipeline
def review(title: str) -> Any:
    sleep("1h")
    return approval("Is ${input.title} right?")


@pipeline
def reviewed(title: str) -> Any:
    return loop(review, title, until=lambda out: out["approved"], max_iterations=3)


def test_decisions_and_signals_reach_the_runs_inside() -> None:
    result = run_pipeline(reviewed, {"title": "it"}, approvals={"review.approval": [False, True]})
    assert result.output["approved"] is True
    assert [each.output["approved"] for each in result.steps["review"].runs] == [False, True]

    @pipeline(id="waiting")
    def waiting() -> Any:
        return wait_for_signal("paid")

    @pipeline(id="outer")
    def outer() -> Any:
        return waiting()

    assert run_pipeline(outer, signals={"paid": 5}).output["payload"] == 5


def test_a_decision_for_nobody_is_refused_with_the_approvals_that_there_are() -> None:
    with pytest.raises(InvalidInput) as refused:
        run_pipeline(reviewed, {"title": "it"}, approvals={"approval": True})
    assert "review.approval" in str(refused.value.hint)


def test_pipelines_that_run_each_other_without_end_are_stopped_at_a_depth() -> None:
    @pipeline(id="endless")
    def endless() -> Any:
        return endless()

    result = run_pipeline(endless)
    depth = 0
    while result.steps["endless"].runs:
        [result] = result.steps["endless"].runs
        depth += 1
    assert depth == 10
    assert "at most 10 may be" in str(result.error)


def test_a_child_knows_what_began_it() -> None:
    @pipeline(id="asked")
    def asked() -> Any:
        return take.options(condition="trigger.type == 'parent'")("child")

    @pipeline(id="outer")
    def outer() -> Any:
        return asked()

    assert run_pipeline(outer).output == {"took": "child"}
    assert run_pipeline(asked).steps["take"].status == "skipped"
