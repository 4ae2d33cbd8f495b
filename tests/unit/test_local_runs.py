"""`pipeweave.testing`: tasks and whole pipelines in-process, with the semantics of production."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeweave import Context, TaskError, TaskResult, pipeline, task
from pipeweave.errors import (
    InvalidInput,
    InvalidNextTasks,
    InvalidParams,
    InvalidReference,
    InvalidResult,
    InvalidSpec,
    MapSourceInvalid,
)
from pipeweave.testing import run_pipeline, run_task


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
    with pytest.raises(InvalidResult):
        run_task(lambda: {1})
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
        return
    assert result.status == "failed"
    assert result.steps["count"].status == "failed"
    assert result.steps["report"].status == ("cancelled" if mode == "fail-fast" else "skipped")
    with pytest.raises(TaskError, match="1 of 3 items failed") as failed:
        result.raise_error()
    assert failed.value.task_code == "MAP_ITEMS_FAILED"


@pytest.mark.parametrize(
    ("paths", "why"),
    [("abc", "there is a text"), (None, "there is null"), ([["x" * 40_000]], "at most 32768")],
)
def test_what_cannot_be_mapped_fails_the_step(paths: Any, why: str) -> None:
    result = run_pipeline(stdlib_report, tasks={"list_files": lambda root: {"paths": paths}})
    assert isinstance(result.error, MapSourceInvalid)
    assert why in str(result.error)


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


def test_what_was_not_chosen_is_skipped_and_the_join_runs_with_the_rest() -> None:
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


def test_several_ends_give_their_outputs_by_step() -> None:
    spec = {"id": "p", "steps": [{"task": "a"}, {"parallel": [{"task": "b"}, {"task": "c"}]}]}
    result = run_pipeline(spec, tasks={"a": lambda: 1, "b": lambda: 2, "c": lambda: 3})
    assert result.output == {"b": 2, "c": 3}


def test_unknown_tasks_and_wrong_pipelines_are_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidSpec, match="not there: nowhere"):
        run_pipeline({"id": "p", "steps": [{"task": "nowhere"}]})
    with pytest.raises(InvalidSpec):
        run_pipeline({"id": "p", "steps": [{"task": "a", "needs": ["a"]}]}, tasks={"a": lambda: 1})
