"""Concurrency limits across worker processes, and who goes first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import Call, LiveStack

from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest

LIMIT = 2


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """Two workers of two children each: twice as many as the limit lets run."""
    empty_stack.start_worker("steps.py", concurrency=2)
    empty_stack.start_worker("steps.py", concurrency=2)
    return empty_stack


def most_at_once(calls: Sequence[Call]) -> int:
    """How many calls were under way at the same moment, at most."""
    changes = sorted([(call.began, 1) for call in calls] + [(call.ended, -1) for call in calls])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def calls_of(stack: LiveStack, runs: Sequence[UUID]) -> list[Call]:
    return [call for run_id in runs for call in stack.calls(run_id)]


def test_a_limit_holds_across_the_workers_for_runs(stack: LiveStack) -> None:
    stack.store({"id": "limited", "steps": [{"id": "only", "task": "limited"}]})
    runs = [stack.trigger("limited") for _ in range(20)]
    assert {stack.finished(run_id).status for run_id in runs} == {"completed"}
    calls = calls_of(stack, runs)
    assert len(calls) == 20
    assert most_at_once(calls) <= LIMIT
    assert len({call.pid for call in calls}) > 1


def test_as_many_calls_run_at_once_as_the_limit_lets_runs(stack: LiveStack, tmp_path: Path) -> None:
    stack.store({"id": "hold-limited", "steps": [{"id": "only", "task": "hold_limited"}]})
    gates = [tmp_path / f"gate-{number}" for number in range(LIMIT)]
    holding = [stack.trigger("hold-limited", {"path": str(gate)}) for gate in gates]
    for gate in gates:
        stack.until(gate.with_name(f"{gate.name}.held").exists, "a run does not hold its slot")
    go = tmp_path / "go"
    go.touch()
    waiting = stack.trigger("hold-limited", {"path": str(go)})
    assert stack.statuses(waiting) == {"only": "ready"}
    gates[0].touch()
    assert stack.finished(waiting).status == "completed"
    gates[1].touch()
    assert {stack.finished(run_id).status for run_id in holding} == {"completed"}


def test_a_limit_holds_inside_a_map_and_its_join_runs(stack: LiveStack) -> None:
    document = {
        "id": "limited-map",
        "steps": [
            {"id": "each", "task": "limited", "needs": [], "map": {"over": "${input.list}"}},
            {"id": "after", "task": "noop"},
        ],
    }
    run = stack.ran(document, {"list": list(range(20))})
    assert run.status == "completed"
    calls = [call for call in stack.calls(run.id) if call.step_id == "each"]
    assert sorted(str(call.map_index) for call in calls) == sorted(map(str, range(20)))
    assert most_at_once(calls) <= LIMIT


@pytest.mark.parametrize("is_gathered", [True, False], ids=["gathered", "irregular"])
def test_limited_steps_feed_a_wide_join(stack: LiveStack, is_gathered: bool) -> None:
    wide = [f"w{number}" for number in range(10)]
    mixed = [
        {"id": each, "task": "limited" if n % 2 else "noop", "needs": ["a"]} for n, each in enumerate(wide)
    ]
    if not is_gathered:
        mixed.append({"id": "further", "task": "limited", "needs": ["w0"]})
        wide.append("further")
    document = {
        "id": f"limited-join-{is_gathered}",
        "steps": [
            {"id": "a", "task": "noop", "needs": []},
            *mixed,
            {"id": "z", "task": "noop", "needs": wide},
        ],
    }
    run = stack.ran(document)
    assert run.status == "completed"
    calls = stack.calls(run.id)
    assert sorted(str(call.step_id) for call in calls) == sorted(["a", "z", *wide])
    assert most_at_once([call for call in calls if call.step_id in wide]) <= 4
    last = max(call.ended for call in calls if call.step_id in wide)
    assert last <= next(call.began for call in calls if call.step_id == "z")


def test_a_limit_is_free_again_after_failures(stack: LiveStack) -> None:
    document = {
        "id": "limited-failures",
        "failureMode": "continue",
        "steps": [{"id": f"s{number}", "task": "act_limited", "needs": []} for number in range(9)],
    }
    run = stack.ran(document, {"fail": {f"s{number}": [] for number in range(0, 9, 2)}})
    assert run.status == "failed"
    statuses = list(stack.statuses(run.id).values())
    assert (statuses.count("failed"), statuses.count("completed")) == (5, 4)


def test_a_cancelled_run_gives_its_slot_to_those_that_wait(stack: LiveStack, tmp_path: Path) -> None:
    stack.store({"id": "hold-single", "steps": [{"id": "only", "task": "hold_single"}]})
    stop, go = tmp_path / "stop", tmp_path / "go"
    holding = stack.trigger("hold-single", {"path": str(stop)})
    stack.until((tmp_path / "stop.held").exists, "the first run does not hold its slot")
    go.touch()
    waiting = stack.trigger("hold-single", {"path": str(go)})
    assert stack.statuses(waiting) == {"only": "ready"}

    stack.cancel(holding)

    assert stack.finished(waiting).status == "completed"
    stop.touch()


def test_a_free_slot_goes_to_the_best_priority_then_to_the_oldest(stack: LiveStack, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stack.enqueue(QueueRequest("hold_single_first", {"path": str(go)}))
    stack.until((tmp_path / "go.held").exists, "nothing holds the slot")
    wishes: list[tuple[str, int | None]] = [("d", None), ("a", 10), ("c", 50), ("e", 100), ("b", 10)]
    stack.store({"id": "single", "steps": [{"id": "only", "task": "hold_single_first"}]})
    free = tmp_path / "free"
    free.touch()
    runs = {name: stack.trigger("single", {"path": str(free)}, priority=level) for name, level in wishes}
    assert {stack.statuses(run_id)["only"] for run_id in runs.values()} == {"ready"}
    go.touch()
    for run_id in runs.values():
        assert stack.finished(run_id).status == "completed"
    began = {name: stack.calls(run_id)[0].began for name, run_id in runs.items()}
    assert sorted(began, key=lambda name: began[name]) == ["a", "b", "c", "d", "e"]


def test_a_better_priority_overtakes_queued_task_runs(stack: LiveStack, tmp_path: Path) -> None:
    go = tmp_path / "go"
    holding = [QueueRequest("hold", {"path": str(go)}) for _ in range(4)]
    held: list[Any] = [each.task_run_id for each in stack.enqueue(*holding)]
    running = "SELECT 1 FROM task_runs WHERE id = ANY(CAST(:ids AS uuid[])) AND status = 'running'"
    stack.until(lambda: len(stack.rows(running, ids=held)) == 4, "the workers are not busy")
    held_step = {"id": "only", "task": "hold", "params": {"path": "${input}"}}
    stack.store({"id": "held", "steps": [held_step]})
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    gates = {stack.trigger("held", str(tmp_path / f"late-{n}"), priority=140): n for n in range(12)}
    soon = stack.trigger("quick", priority=10)
    go.touch()

    def begun() -> list[UUID]:
        begun = "SELECT run_id FROM task_runs WHERE run_id = ANY(:ids) AND status IN ('running', 'completed')"
        return [row.run_id for row in stack.rows(begun, ids=list(gates))]

    # Each child may have taken one more message before it became busy; those do not count.
    stack.until(lambda: len(begun()) == 4, "the late ones did not begin")
    for run_id in begun():
        (tmp_path / f"late-{gates[run_id]}").touch()
    assert stack.finished(soon).status == "completed"
    # The other three children, and the one that called it, may have gone on with one late one each.
    assert len(begun()) <= 4 + 4
    for number in gates.values():
        (tmp_path / f"late-{number}").touch()
    assert {stack.finished(run_id).status for run_id in gates} == {"completed"}
