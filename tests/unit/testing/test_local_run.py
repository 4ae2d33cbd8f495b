"""`pipeweave.testing`: tasks and whole pipelines in-process, with the semantics of production."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from pipeweave import Context, Retry, TaskError, TaskResult, pipeline, task
from pipeweave.errors import (
    InvalidIdempotencyKey,
    InvalidInput,
    InvalidNextTasks,
    InvalidParams,
    InvalidReference,
    InvalidResult,
    InvalidSpec,
    MapSourceInvalid,
)
from pipeweave.testing import StepResult, run_pipeline, run_task


@task
def list_files(root: str) -> dict[str, Any]:
    return {"paths": [f"{root}/{name}" for name in ("a", "bb", "ccc")]}


@task
def count(path: str) -> int:
    if path.endswith("bad"):
        raise TaskError("cannot be counted", code="BAD_FILE")
    return len(path)


@task
def report(ctx: Context, rows: Sequence[int | None]) -> dict[str, Any]:
    return {"total": sum(row or 0 for row in rows), "seen": sorted(ctx.upstream)}


@pipeline
def stdlib_report(root: str = "/usr") -> None:
    files = list_files(root)
    counts = count.map(files["paths"])
    report(counts)


def test_a_task_is_run_as_a_worker_would() -> None:
    assert run_task(count, {"path": "abc"}).output == 3
    assert run_task(count, item="ab").output == 2
    assert run_task(report, params={"rows": [1, 2]}, upstream={"x": 1}).output == {"total": 3, "seen": ["x"]}
    with pytest.raises(InvalidParams):
        run_task(count, {})
    with pytest.raises(TaskError):
        run_task(count, {"path": "bad"})
    assert run_task(lambda: {"ids": {UUID(int=1)}}).output == {"ids": [str(UUID(int=1))]}
    with pytest.raises(InvalidResult):
        run_task(lambda: b"1")
    with pytest.raises(InvalidInput):
        run_task(count, {"path": {1}})


def test_a_task_sees_its_attempt_and_reports_progress() -> None:
    told: list[float] = []

    def attempt(ctx: Context) -> list[Any]:
        ctx.progress(50)
        return [ctx.attempt, list(ctx.previous_attempts), ctx.run_id[:5], ctx.task_run_id[:5]]

    failed = {"attempt": 1, "error": "oops"}
    outcome = run_task(
        attempt, attempt=2, previous_attempts=[failed], on_progress=lambda percent, _: told.append(percent)
    )
    assert outcome.output == [2, [failed], "prun_", "trun_"]
    assert told == [50.0]


def test_a_pipeline_runs_with_map_references_and_defaults() -> None:
    result = run_pipeline(stdlib_report)
    assert result.status == "completed"
    assert result.steps["count"].output == [6, 7, 8]
    assert [item.output for item in result.steps["count"].items] == [6, 7, 8]
    assert result.output == {"total": 21, "seen": ["count", "list_files"]}
    assert run_pipeline(stdlib_report, {"root": "/"}).steps["count"].output == [3, 4, 5]
    assert result.raise_error() is result


def test_a_map_over_nothing_completes_with_nothing() -> None:
    result = run_pipeline(stdlib_report, tasks={"list_files": lambda root: {"paths": []}})
    assert (result.status, result.steps["count"].output, result.output["total"]) == ("completed", [], 0)


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
def test_a_failing_item_ends_as_the_failure_mode_says(mode: str) -> None:
    result = run_pipeline(
        stdlib_report, tasks={"list_files": lambda root: {"paths": ["x", "bad", "yy"]}}, failure_mode=mode
    )
    if mode == "partial-merge":
        assert result.steps["count"].output == [1, None, 2]
        assert result.output["total"] == 3
        assert result.status == "partial"
        return
    assert result.status == "failed"
    assert result.steps["count"].status == "failed"
    assert result.steps["report"].status == ("cancelled" if mode == "fail-fast" else "skipped")
    with pytest.raises(TaskError, match="1 of 3 items failed") as failed:
        result.raise_error()
    assert failed.value.task_code == "MAP_ITEMS_FAILED"


@pytest.mark.parametrize(
    ("paths", "why"),
    [("abc", "not a text"), (7, "not a number"), ([["x" * 40_000]], "at most 32768")],
)
def test_a_source_that_cannot_be_mapped_fails_the_step(paths: Any, why: str) -> None:
    result = run_pipeline(stdlib_report, tasks={"list_files": lambda root: {"paths": paths}})
    assert isinstance(result.error, MapSourceInvalid)
    assert why in str(result.error)


def test_a_map_over_null_has_no_items() -> None:
    result = run_pipeline(stdlib_report, tasks={"list_files": lambda root: {"paths": None}})
    assert result.steps["count"].output == []


def choosing(*chosen: str) -> Any:
    return lambda: TaskResult("start", run_next=list(chosen))


ROUTED = {
    "id": "routed",
    "steps": [
        {"task": "start"},
        {"parallel": [{"task": "left"}, {"task": "right"}]},
        {"task": "join", "params": {"left": "${steps.left}", "right": "${steps.right}"}},
    ],
}
BRANCHES = {"left": lambda: "l", "right": lambda: "r", "join": lambda left, right: [left, right]}


def test_unselected_branches_are_skipped_and_the_join_runs() -> None:
    result = run_pipeline(ROUTED, tasks={**BRANCHES, "start": choosing("left")})
    assert {id: step.status for id, step in result.steps.items()} == {
        "start": "completed",
        "left": "completed",
        "right": "skipped",
        "join": "completed",
    }
    assert result.output == ["l", None]
    assert result.status == "completed"


def test_choosing_nothing_skips_everything_after() -> None:
    result = run_pipeline(ROUTED, tasks={**BRANCHES, "start": choosing()})
    assert [step.status for step in result.steps.values()] == ["completed", "skipped", "skipped", "skipped"]
    assert result.status == "completed"


def test_choosing_a_step_that_does_not_follow_fails_the_step() -> None:
    result = run_pipeline(ROUTED, tasks={**BRANCHES, "start": choosing("join")})
    assert isinstance(result.error, InvalidNextTasks)
    assert result.status == "failed"


def test_a_reference_that_leads_nowhere_fails_the_step() -> None:
    spec = {"id": "p", "steps": [{"task": "a"}, {"task": "b", "params": {"x": "${steps.a.nope}"}}]}
    result = run_pipeline(spec, tasks={"a": lambda: {"y": 1}, "b": lambda x: x})
    assert isinstance(result.error, InvalidReference)


def test_outputs_travel_as_json() -> None:
    spec = {"id": "p", "steps": [{"task": "a"}, {"task": "b", "params": {"x": "${steps.a}"}}]}
    seen: list[Any] = []
    run_pipeline(spec, tasks={"a": lambda: (1, 2), "b": seen.append})
    with_list: list[Any] = []

    def keep(x: Any) -> None:
        with_list.append(x)

    run_pipeline(spec, tasks={"a": lambda: (1, 2), "b": keep})
    assert with_list == [[1, 2]]


# --- attempts ---------------------------------------------------------------------------------------------


class Flaky:
    """Fails as often as there are errors, then gives what it was told of the attempts before."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def run(self, ctx: Context) -> list[Any]:
        if self.errors:
            raise self.errors.pop(0)
        return [ctx.attempt, ctx.task_run_id, [dict(each) for each in ctx.previous_attempts]]


def one_step(fn: Any, **options: Any) -> StepResult:
    @task(id="flaky", **options)
    def flaky(ctx: Context) -> Any:
        return fn(ctx)

    return run_pipeline({"id": "p", "steps": [{"task": "flaky"}]}, tasks=[flaky]).steps["flaky"]


def test_a_failed_attempt_is_tried_again_and_told_of_those_before() -> None:
    busy = TaskError("busy", code="HTTP_503", details={"after": 5})
    result = one_step(Flaky(busy, ValueError()).run, retry_delay_ms=100, retry_jitter=0.5)
    assert (result.status, result.error, result.attempts) == ("completed", None, 3)
    assert result.delays_ms == [100, 200]
    assert result.output[0] == 3
    told = result.output[2]
    assert told == result.previous_attempts
    assert [(each["attempt"], each["errorCode"], each["error"]) for each in told] == [
        (1, "HTTP_503", "busy"),
        (2, "ValueError", "ValueError"),
    ]
    assert (told[0]["status"], told[0]["details"], told[1]["details"]) == ("failed", {"after": 5}, None)
    assert datetime.fromisoformat(told[0]["timestamp"]).tzinfo is not None


def test_all_attempts_are_one_task_run() -> None:
    seen: list[str] = []

    def note(ctx: Context) -> None:
        seen.append(ctx.task_run_id)
        if len(seen) < 3:
            raise ValueError

    one_step(note)
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (3, 4)])
def test_after_the_last_attempt_the_step_has_failed(retries: int, attempts: int) -> None:
    result = one_step(Flaky(*[ValueError(n) for n in range(10)]).run, retries=retries)
    assert (result.status, result.attempts, len(result.delays_ms)) == ("failed", attempts, retries)
    assert str(result.error) == str(attempts - 1), "the last error is the step's"


def test_an_error_that_is_not_retryable_is_not_retried() -> None:
    assert one_step(Flaky(TaskError("no", retryable=False)).run).attempts == 1
    assert one_step(lambda ctx: {1}).attempts == 1


def test_only_the_named_errors_are_tried_again() -> None:
    retry = Retry(attempts=5, retry_on=["HTTP_503"])
    errors = [TaskError("busy", code="HTTP_503"), TaskError("broken", code="HTTP_500")]
    result = one_step(Flaky(*errors).run, retry=retry)
    assert (result.status, result.attempts) == ("failed", 2)
    assert isinstance(result.error, TaskError)
    assert result.error.task_code == "HTTP_500"


def test_each_item_of_a_map_has_attempts_of_its_own() -> None:
    seen: list[int] = []

    @task(retries=1)
    def halve(n: int) -> float:
        seen.append(n)
        if seen.count(n) < n:
            raise ValueError(n)
        return n / 2

    spec = {"id": "p", "failureMode": "continue", "steps": [{"task": "halve", "map": [1, 2, 3]}]}
    items = run_pipeline(spec, tasks=[halve]).steps["halve"].items
    assert [(each.status, each.attempts) for each in items] == [
        ("completed", 1),
        ("completed", 2),
        ("failed", 2),
    ]


def test_a_function_is_tried_as_often_as_the_task_it_stands_in_for() -> None:
    spec = {"id": "p", "steps": [{"task": "count"}]}
    error = ValueError("x")
    result = run_pipeline(spec, tasks={"count": Flaky(error, error, error).run}).steps["count"]
    assert (result.status, result.attempts) == ("completed", 4)
    spec = {"id": "p", "steps": [{"task": "no-task"}]}
    assert run_pipeline(spec, tasks={"no-task": Flaky(error).run}).steps["no-task"].attempts == 1


def test_several_ends_give_their_outputs_by_step() -> None:
    spec = {"id": "p", "steps": [{"task": "a"}, {"parallel": [{"task": "b"}, {"task": "c"}]}]}
    result = run_pipeline(spec, tasks={"a": lambda: 1, "b": lambda: 2, "c": lambda: 3})
    assert result.output == {"b": 2, "c": 3}


def test_unknown_tasks_and_wrong_pipelines_are_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidSpec, match="not defined: nowhere"):
        run_pipeline({"id": "p", "steps": [{"task": "nowhere"}]})
    with pytest.raises(InvalidSpec):
        run_pipeline({"id": "p", "steps": [{"task": "a", "needs": ["a"]}]}, tasks={"a": lambda: 1})


# --- idempotency keys -------------------------------------------------------------------------------------


def test_a_task_in_place_of_a_pipeline_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="is a task") as error:
        run_pipeline(count)  # type: ignore[arg-type]
    assert error.value.hint == "run a task with run_task"


def test_calls_with_the_same_key_are_made_once_in_a_run() -> None:
    called: list[int] = []

    @task(idempotency_key=lambda input: str(input["number"] % 3))
    def third(number: int) -> int:
        called.append(number)
        return number

    @pipeline
    def thirds(numbers: Sequence[int]) -> None:
        third.map(numbers)

    for _ in range(2):
        called.clear()
        assert run_pipeline(thirds, {"numbers": [0, 1, 2, 3, 4, 6]}).output == [0, 1, 2, 0, 1, 0]
        assert called == [0, 1, 2]


def test_calls_with_the_same_inputs_are_made_once_where_these_are_the_key() -> None:
    called: list[int] = []

    @task(idempotency_key="inputs", idempotency_ttl="1h")
    def doubled(number: int) -> int:
        called.append(number)
        return number * 2

    @pipeline
    def twice(numbers: Sequence[int]) -> None:
        doubled.map(numbers)

    assert run_pipeline(twice, {"numbers": [1, 2, 1, 1]}).output == [2, 4, 2, 2]
    assert called == [1, 2]


def test_a_failure_answers_for_no_key() -> None:
    tried: list[int] = []

    @task(idempotency_key=lambda input: "k", retries=1)
    def once_more(number: int) -> int:
        tried.append(number)
        if len(tried) == 1:
            raise ValueError("not yet")
        return number

    @pipeline
    def twice() -> None:
        once_more.map([5, 6])

    assert run_pipeline(twice).output == [5, 5]
    assert tried == [5, 5]


def test_a_key_that_is_none_fails_the_step() -> None:
    @task(idempotency_key=lambda input: None)  # type: ignore[arg-type, return-value]
    def keyless() -> None: ...

    @pipeline
    def one() -> None:
        keyless()

    failed = run_pipeline(one).steps["keyless"]
    assert (failed.status, type(failed.error)) == ("failed", InvalidIdempotencyKey)


@task(id="async-double", retries=1)
async def async_double(ctx: Context, number: int) -> int:
    await asyncio.sleep(0)
    if ctx.attempt == 1:
        raise TaskError("not yet")
    return 2 * number


def test_an_async_task_is_run_to_its_end() -> None:
    assert run_task(async_double, {"number": 2}, attempt=2).output == 4
    document = {"id": "p", "steps": [{"id": "a", "task": "async-double"}]}
    result = run_pipeline(document, {"number": 3})
    assert (result.steps["a"].output, result.steps["a"].attempts) == (6, 2)


def test_what_a_function_changes_is_seen_by_no_other_call_as_on_workers() -> None:
    @task
    def give(value: Any) -> Any:
        return value

    @task
    def spoil(value: Any) -> Any:
        value.append("spoilt")
        return value

    @pipeline
    def spoiling(sent: Any) -> Any:
        made = give(["made"])
        spoilt = spoil(made)
        also_spoilt = spoil.options(needs=[spoilt])(sent)
        return give.options(needs=[also_spoilt])([made, sent])

    assert run_pipeline(spoiling, {"sent": ["sent"]}).output == [["made"], ["sent"]]


@pipeline
def near(root: str = "/usr") -> None:
    files = list_files(root)
    report.options(requires={"host": files["paths"][0], "zone": "eu"})(rows=[1])


def test_here_every_machine_has_the_labels_that_steps_require() -> None:
    assert run_pipeline(near).status == "completed"
