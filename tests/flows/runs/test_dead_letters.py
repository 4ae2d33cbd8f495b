"""Going on from dead letters with real workers and a real broker. No beat runs to heal what is forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack
from support.stored_values import VALUES

from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.spec.rules import FAILURE_MODES

CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
WIDE = [f"b{number}" for number in range(12)]
GATHERED = {"a": [], **{each: ["a"] for each in WIDE}, "join": WIDE, "last": ["join"]}
IRREGULAR = {
    "a": [],
    "x": ["a"],
    **{each: ["a"] for each in WIDE[1:]},
    WIDE[0]: ["x"],
    "join": WIDE,
    "last": ["join"],
}


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """A stack with one worker of two children that has loaded `apps/mending.py`."""
    empty_stack.start_worker("mending.py", concurrency=2)
    return empty_stack


def graph(
    needs: Mapping[str, Sequence[str]], mode: str, tasks: Mapping[str, str], **maps: str
) -> dict[str, Any]:
    steps = [
        {"id": step, "task": tasks.get(step, "mend"), "needs": list(before)}
        | ({"map": {"over": maps[step]}} if step in maps else {})
        for step, before in needs.items()
    ]
    return {"id": "mending", "failureMode": mode, "steps": steps}


def still_open(stack: LiveStack, run_id: UUID) -> list[Any]:
    return stack.rows(
        "SELECT * FROM dead_letters WHERE run_id = :id AND retried_at IS NULL ORDER BY id", id=run_id
    )


def retry(stack: LiveStack, letter: Any) -> dead_letters.Retried:
    return stack.deployment.database.run(
        lambda tx: dead_letters.retry(tx, stack.settings.tenant, letter.id), is_one=False
    )


def agrees(stack: LiveStack, run_id: UUID) -> bool:
    with verify.snapshot(stack.deployment.database) as tx:
        return not verify.run(tx, run_id)


def test_a_run_goes_on_after_its_cause_was_mended(stack: LiveStack, tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    run = stack.ran(graph(CHAIN, "fail-fast", {}), {"broken": str(tmp_path)})
    assert (run.status, stack.statuses(run.id)["c"]) == ("failed", "cancelled")
    (letter,) = still_open(stack, run.id)
    assert "b is broken" in letter.history[0]["error"]["traceback"]

    retry(stack, letter)
    assert stack.finished(run.id).status == "failed", "it was not mended yet"
    (tmp_path / "b").unlink()
    retry(stack, still_open(stack, run.id)[0])
    assert stack.finished(run.id).status == "completed"
    assert stack.called(run.id) == {"a": 1, "b": 3, "c": 1, "d": 1}
    assert [call.seen for call in stack.calls(run.id) if call.step_id == "b"] == [[1, 0], [2, 1], [3, 2]]
    assert agrees(stack, run.id)


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize("tasks", [{}, dict.fromkeys(WIDE, "mend_limited")], ids=["plain", "limited"])
@pytest.mark.parametrize("needs", [GATHERED, IRREGULAR], ids=["gathered", "irregular"])
def test_wide_joins_close_without_a_tick(
    stack: LiveStack, tmp_path: Path, mode: str, tasks: dict[str, str], needs: dict[str, list[str]]
) -> None:
    broken = [tmp_path / each for each in ("b3", "b7", "b0")]
    for each in broken:
        each.touch()
    run = stack.ran(graph(needs, mode, tasks), {"broken": str(tmp_path)})
    for each in broken:
        each.unlink()
        for letter in still_open(stack, run.id)[:1]:
            retry(stack, letter)
            stack.finished(run.id)
    while letters := still_open(stack, run.id):
        for letter in letters:
            retry(stack, letter)
        stack.finished(run.id)
    assert stack.run(run.id).status == "completed"
    assert set(stack.statuses(run.id).values()) == {"completed"}
    called = stack.called(run.id)
    assert (called["a"], called["join"], called["last"]) == (1, 1, 1)
    assert agrees(stack, run.id)


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize("task", ["mend", "mend_limited"])
def test_items_of_a_wide_map_go_on(stack: LiveStack, tmp_path: Path, mode: str, task: str) -> None:
    needs: dict[str, list[str]] = {"m": [], "after": ["m"]}
    for index in range(0, 60, 7):
        (tmp_path / f"m.{index}").touch()
    document = graph(needs, mode, {"m": task}, m="${input.items}")
    run = stack.ran(document, {"broken": str(tmp_path), "items": list(range(60))})
    for each in tmp_path.iterdir():
        each.unlink()
    stack.forget_chords(run.id)
    while letters := still_open(stack, run.id):
        for letter in letters:
            retry(stack, letter)
        stack.finished(run.id)
    assert stack.run(run.id).status == "completed"
    assert {row.status for row in stack.task_runs(run.id)} == {"completed"}
    assert stack.called(run.id)["after"] == 1
    assert agrees(stack, run.id)


def test_the_tick_retries_many(stack: LiveStack, tmp_path: Path) -> None:
    for each in WIDE:
        (tmp_path / each).touch()
    run = stack.ran(graph(GATHERED, "continue", {}), {"broken": str(tmp_path)})
    assert len(still_open(stack, run.id)) == len(WIDE)
    for each in WIDE:
        (tmp_path / each).unlink()
    redrive_id = stack.deployment.database.run(
        lambda tx: redrives.create(tx, stack.settings.tenant, LetterFilter(pipeline_id="mending"))
    )
    assert stack.tick().redriven >= len(WIDE)
    (row,) = stack.rows("SELECT * FROM redrives WHERE id = :id", id=redrive_id)
    assert (row.status, row.skipped) == ("completed", 0)
    assert stack.finished(run.id).status == "completed"
    assert stack.called(run.id) == {"a": 1, **dict.fromkeys(WIDE, 2), "join": 1, "last": 1}


def test_a_standalone_task_runs_anew(stack: LiveStack, tmp_path: Path) -> None:
    (tmp_path / "alone").touch()
    request = QueueRequest("mend", {"broken": str(tmp_path)})
    (queued,) = stack.deployment.database.run(
        lambda tx: standalone_tasks.enqueue(tx, VALUES, stack.settings.tenant, [request]), is_one=False
    )
    first = UUID(int=queued.task_run_id.int & ~0xFFFFFF)
    assert stack.finished(first).status == "failed"
    (tmp_path / "alone").unlink()
    retried = retry(stack, still_open(stack, first)[0])
    assert stack.finished(retried.run_id).status == "completed"
    assert stack.run(first).status == "failed"
