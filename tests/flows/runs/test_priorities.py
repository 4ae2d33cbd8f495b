"""Exact priorities: Redis has four levels of them, a worker's child takes the best of all that is queued."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import LiveStack

from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """One worker of one child, and no beat: what is lost here stays lost."""
    empty_stack.start_worker("steps.py", concurrency=1)
    return empty_stack


def hold(stack: LiveStack, gate: Path) -> None:
    """Keep the child busy until the gate is open."""
    stack.enqueue(QueueRequest("hold", {"path": str(gate)}))
    stack.until(Path(f"{gate}.held").exists, "the child is not busy")


def look(stack: LiveStack) -> None:
    """Wait until the worker's parent has looked at its queue as it is now."""

    def beat() -> object:
        return stack.rows("SELECT max(heartbeat_at) FROM workers WHERE stopped_at IS NULL")[0][0]

    for _ in range(2):
        before = beat()
        stack.until(lambda before=before: beat() != before, "the worker does not beat")  # type: ignore[misc]


def began(stack: LiveStack, run_id: UUID) -> float:
    stack.finished(run_id)
    return stack.calls(run_id)[0].began


def test_queued_runs_start_by_priority_then_age(stack: LiveStack, gate: Path) -> None:
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stack, gate)
    priorities = [-3, 10, 49, 50, 60, 60, 70, 70, 99, 100, 101, 120, 149, 150, 900] * 2
    random.Random(4711).shuffle(priorities)
    runs = [(priority, stack.trigger("quick", priority=priority)) for priority in priorities]
    look(stack)
    gate.touch()
    expected = [run_id for _, run_id in sorted(runs, key=lambda each: each[0])]
    starts = {run_id: began(stack, run_id) for _, run_id in runs}
    assert sorted(starts, key=lambda run_id: starts[run_id]) == expected
    assert {len(stack.calls(run_id)) for run_id in starts} == {1}


def test_the_steps_of_a_chain_let_better_ones_go_between_them(stack: LiveStack, gate: Path) -> None:
    chain = [{"id": "s0", "task": "noop", "needs": []}]
    chain += [{"id": f"s{n}", "task": "noop", "needs": [f"s{n - 1}"]} for n in range(1, 10)]
    stack.store({"id": "chain", "steps": chain})
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stack, gate)
    low = stack.trigger("chain", priority=90)
    high = stack.trigger("chain", priority=60)
    between = stack.trigger("quick", priority=80)
    look(stack)
    gate.touch()
    stack.finished(low)
    last_high = max(call.ended for call in stack.calls(high))
    first_low = min(call.began for call in stack.calls(low))
    assert last_high <= began(stack, between) <= first_low


def test_a_map_under_way_lets_better_ones_go_between_its_turns(stack: LiveStack) -> None:
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    steps = [
        {"id": "m", "task": "nap", "needs": [], "map": {"over": "${input.list}"}},
        {"id": "z", "task": "noop", "needs": ["m"]},
    ]
    stack.store({"id": "naps", "steps": steps})
    mapped = stack.trigger("naps", {"list": list(range(150))}, priority=140)
    stack.until(lambda: len(stack.calls(mapped)) > 3, "the map does not run")
    better = [stack.trigger("quick", priority=priority) for priority in (120, 110, 130)]
    starts = [began(stack, run_id) for run_id in better]
    assert stack.finished(mapped).status == "completed"
    naps = [call.began for call in stack.calls(mapped) if call.step_id == "m"]
    assert len(naps) == 150
    # 50 ms each: a second until the parent has looked, and a turn.
    assert sum(start > max(starts) for start in naps) > 50
    # The first one may have started before the second one was triggered.
    assert starts[1] < starts[2]


def test_a_wide_join_fires_though_other_messages_took_its_parts(stack: LiveStack, gate: Path) -> None:
    many = [f"w{number}" for number in range(30)]
    steps = [{"id": "a", "task": "noop", "needs": []}]
    steps += [{"id": each, "task": "noop", "needs": ["a"]} for each in many]
    stack.store({"id": "wide", "steps": [*steps, {"id": "z", "task": "noop", "needs": many}]})
    stack.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stack, gate)
    others = [stack.trigger("quick", priority=priority) for priority in (95, 96, 97, 98) * 5]
    wide = [stack.trigger("wide", priority=priority) for priority in (60, 70)]
    look(stack)
    gate.touch()
    for run_id in wide:
        assert stack.finished(run_id).status == "completed"
        assert stack.called(run_id) == {each: 1 for each in ["a", *many, "z"]}
    last = max(call.ended for run_id in wide for call in stack.calls(run_id))
    assert last <= min(began(stack, run_id) for run_id in others)
