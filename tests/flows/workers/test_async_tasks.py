"""`async def` tasks: many calls at once in one child, each for itself."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack, StackMaker

from pipeweave import ids


@pytest.fixture(scope="module")
def stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A worker of one child, and a beat: retries are due at once."""
    with make_stack(tmp_path_factory.mktemp("async")) as own:
        own.start_worker("awaiting.py", concurrency=1)
        own.start_beat()
        yield own


def mapped(task: str, **options: Any) -> dict[str, Any]:
    """A list is mapped over, and a step follows."""
    each = {"id": "each", "task": task, "needs": [], "map": {"over": "${input.list}", "as": "number"}}
    return {
        "id": f"map-{task}",
        "steps": [each, {"id": "after", "task": "noop", "needs": ["each"]}],
        **options,
    }


def begun(stack: LiveStack, run_id: UUID) -> Counter[tuple[int | None, Any]]:
    """How often each attempt of each item was begun."""
    return Counter((each.map_index, each.seen) for each in stack.calls(run_id) if each.step_id == "each")


def failures(stack: LiveStack, run_id: UUID) -> dict[tuple[int, int], tuple[str, str]]:
    """Status and code of the failed attempts, by item and attempt."""
    index = {row.id: row.map_index for row in stack.items(run_id, "each")}
    rows = stack.attempts(run_id)
    return {(index[row.task_run_id], row.number): (row.status, row.error_code) for row in rows}


def failures_of(stack: LiveStack, runs: list[UUID]) -> list[tuple[str, str]]:
    return [(row.status, row.error_code) for each in runs for row in stack.attempts(each)]


def test_two_hundred_calls_wait_at_once_in_one_child(stack: LiveStack) -> None:
    run = stack.ran(mapped("meets"), {"list": list(range(200)), "count": 200})
    assert run.status == "completed"
    items = stack.items(run.id, "each")
    assert [row.output[0] for row in items] == list(range(200))
    assert len({row.output[1] for row in items}) == 1
    assert [list(row.assets) for row in items] == [[f"n{number}.txt"] for number in range(200)]
    assert begun(stack, run.id) == {(number, 1): 1 for number in range(200)}
    assert stack.called(run.id)["after"] == 1


def test_a_child_runs_no_more_calls_at_once_than_the_task_allows(stack: LiveStack) -> None:
    run = stack.ran(mapped("crowd"), {"list": list(range(10))})
    assert run.status == "completed"
    assert max(row.output for row in stack.items(run.id, "each")) == 3


def test_results_and_successors_do_not_wait_for_a_slow_call(stack: LiveStack, gate: Path) -> None:
    each = {"task": "gated", "needs": []}
    document = {
        "id": "slow-beside",
        "steps": [
            {"id": "slow", **each, "params": {"number": 0, "gate": "${input.gate}"}},
            {"id": "quick", **each, "params": {"number": 1, "gate": "${input.gate}", "held": 0}},
            {
                "id": "next",
                "task": "gated",
                "needs": ["quick"],
                "params": {"number": 2, "gate": "${input.gate}", "held": 0},
            },
        ],
    }
    stack.store(document)
    run_id = stack.trigger("slow-beside", {"gate": str(gate)})
    quick = {"slow": "running", "quick": "completed", "next": "completed"}
    stack.until(lambda: stack.statuses(run_id) == quick, "the slow call holds the others back")
    stack.until(lambda: stack.steps(run_id)["slow"].progress == 50, "its progress is not stored")
    gate.touch()
    assert stack.finished(run_id).status == "completed"


def test_a_call_that_takes_too_long_or_raises_fails_alone(stack: LiveStack) -> None:
    run = stack.ran(mapped("late", failureMode="partial-merge"), {"list": list(range(20))})
    assert run.status == "partial"
    items = stack.items(run.id, "each")
    assert Counter(row.status for row in items) == {"completed": 18, "failed": 1, "timeout": 1}
    assert (items[0].error_code, items[1].error_code) == ("TIMEOUT", "ValueError")
    assert items[0].error["details"] == {"timeoutMs": 500}
    assert "not this one" in items[1].error["traceback"]
    assert "event_loop" not in items[1].error["traceback"]


def test_a_cancelled_run_cancels_its_calls(stack: LiveStack, gate: Path) -> None:
    stack.store(mapped("gated"))
    run_id = stack.trigger("map-gated", {"list": [0, 1, 2], "gate": str(gate)})
    stack.until(lambda: len(begun(stack, run_id)) == 3, "the calls do not run")
    stack.cancel(run_id)
    told = Path(f"{gate}.cancelled")
    stack.until(lambda: told.exists() and told.read_text() == "True", "no call was cancelled")
    assert stack.ran(mapped("crowd"), {"list": [1]}).status == "completed"


def test_every_call_prints_and_logs_for_itself(stack: LiveStack) -> None:
    run = stack.ran(mapped("talks"), {"list": [0, 1, 2], "count": 3})
    shown = ids.show(ids.RUN, run.id)
    log = stack.folder / next(stack.folder.glob("w*.log")).name
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    said = {
        (line["map_index"], line["message"])
        for line in lines
        if line.get("run_id") == shown and "map_index" in line
    }
    for number in range(3):
        assert {(number, f"{number} begins and ends"), (number, f"logged by {number}")} <= said


def test_calls_of_one_key_in_one_child_are_one_call(stack: LiveStack) -> None:
    run = stack.ran(mapped("shared"), {"list": list(range(10))})
    assert run.status == "completed"
    assert [row.output for row in stack.items(run.id, "each")] == [number % 2 for number in range(10)]
    assert stack.called(run.id)["each"] == 2


def test_a_child_that_is_killed_loses_each_of_its_calls_once(stack: LiveStack, gate: Path) -> None:
    stack.store(mapped("gated"))
    run_id = stack.trigger("map-gated", {"list": list(range(50)), "gate": str(gate)})
    stack.until(lambda: len(begun(stack, run_id)) == 50, "the calls do not run")
    [child] = {each.pid for each in stack.calls(run_id)}
    os.kill(child, signal.SIGKILL)
    assert stack.finished(run_id).status == "completed"
    assert begun(stack, run_id) == {(number, attempt): 1 for number in range(50) for attempt in (1, 2)}
    assert failures(stack, run_id) == {(number, 1): ("lost", "WORKER_LOST") for number in range(50)}


def test_runs_share_a_child_and_each_is_stored_for_itself(stack: LiveStack, gate: Path) -> None:
    stack.store({"id": "alone", "steps": [{"id": "each", "task": "gated", "needs": []}]})
    runs = [stack.trigger("alone", {"number": number, "gate": str(gate)}) for number in range(40)]
    stack.until(lambda: all(begun(stack, each) for each in runs), "the calls of some runs wait")
    [child] = {call.pid for each in runs for call in stack.calls(each)}
    stack.cancel(runs[7])
    os.kill(child, signal.SIGKILL)
    ended = [stack.finished(each).status for each in runs]
    assert ended == ["completed"] * 7 + ["cancelled"] + ["completed"] * 32
    assert {sum(begun(stack, each).values()) for each in runs} == {1, 2}
    assert failures_of(stack, runs) == [("lost", "WORKER_LOST")] * 39


def test_runs_of_other_tasks_are_not_overtaken(stack: LiveStack, gate: Path) -> None:
    for task in ("gated", "noop"):
        stack.store({"id": f"only-{task}", "steps": [{"id": "each", "task": task, "needs": []}]})
    given = {"number": 1, "gate": str(gate)}
    first = stack.trigger("only-gated", given)
    stack.until(lambda: bool(begun(stack, first)), "the first call does not run")
    plain = stack.trigger("only-noop", given)
    last = stack.trigger("only-gated", {**given, "held": 0})
    gate.touch()
    assert [stack.finished(each).status for each in (first, plain, last)] == ["completed"] * 3
    [of_plain], [of_last] = stack.calls(plain)[:1], stack.calls(last)[:1]
    assert of_plain.began < of_last.began


def test_a_call_that_holds_the_loop_is_killed_and_the_others_are_lost(
    stack: LiveStack, tmp_path: Path
) -> None:
    folder = tmp_path / "met"
    folder.mkdir()
    run = stack.ran(mapped("blocks"), {"list": list(range(4)), "gate": str(folder)})
    assert run.status == "completed"
    ended = failures(stack, run.id)
    assert ended.keys() == {(number, 1) for number in range(4)}
    assert ("timeout", "TIMEOUT") in ended.values()
    assert set(ended.values()) <= {("timeout", "TIMEOUT"), ("lost", "WORKER_LOST")}
    assert "event_loop.held" in "".join(each.read_text() for each in stack.folder.glob("w*.log"))


def test_a_worker_that_is_asked_to_stop_lets_its_calls_end(stack: LiveStack, gate: Path) -> None:
    doomed = next(each.pid for each in stack.processes if "worker" in each.args)  # type: ignore[operator]
    stack.store(mapped("gated"))
    run_id = stack.trigger("map-gated", {"list": list(range(20)), "gate": str(gate)})
    stack.until(lambda: len(begun(stack, run_id)) == 20, "the calls do not run")
    os.kill(doomed, signal.SIGTERM)
    stack.until(
        lambda: bool(stack.rows("SELECT 1 FROM workers WHERE stopping_at IS NOT NULL")), "it does not stop"
    )
    gate.touch()
    stack.until(
        lambda: {row.status for row in stack.items(run_id, "each")} == {"completed"}, "the calls did not end"
    )
    stack.stop(doomed)
    assert failures(stack, run_id) == {}
