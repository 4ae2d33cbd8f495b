"""Exact priorities: Redis has four levels of them, a worker's child takes the best of all that is queued."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import Stage

from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def stage(empty_stage: Stage) -> Stage:
    """One worker of one child, and no beat: what is lost here stays lost."""
    empty_stage.start_worker("steps.py", concurrency=1)
    return empty_stage


def hold(stage: Stage, gate: Path) -> None:
    """Keep the child busy until the gate is open."""
    stage.enqueue(QueueRequest("hold", {"path": str(gate)}))
    stage.until(Path(f"{gate}.held").exists, "the child is not busy")


def look(stage: Stage) -> None:
    """Wait until the worker's parent has looked at its queue as it is now."""

    def beat() -> object:
        return stage.rows("SELECT max(heartbeat_at) FROM workers WHERE stopped_at IS NULL")[0][0]

    for _ in range(2):
        before = beat()
        stage.until(lambda before=before: beat() != before, "the worker does not beat")  # type: ignore[misc]


def began(stage: Stage, run_id: UUID) -> float:
    stage.finished(run_id)
    return stage.calls(run_id)[0].began


def test_what_waits_goes_by_priority_then_age_to_the_last_one(stage: Stage, gate: Path) -> None:
    stage.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stage, gate)
    priorities = [-3, 10, 49, 50, 60, 60, 70, 70, 99, 100, 101, 120, 149, 150, 900] * 2
    random.Random(4711).shuffle(priorities)
    runs = [(priority, stage.trigger("quick", priority=priority)) for priority in priorities]
    look(stage)
    gate.touch()
    expected = [run_id for _, run_id in sorted(runs, key=lambda each: each[0])]
    starts = {run_id: began(stage, run_id) for _, run_id in runs}
    assert sorted(starts, key=lambda run_id: starts[run_id]) == expected
    assert {len(stage.calls(run_id)) for run_id in starts} == {1}


def test_the_steps_of_a_chain_let_better_ones_go_between_them(stage: Stage, gate: Path) -> None:
    chain = [{"id": "s0", "task": "noop", "needs": []}]
    chain += [{"id": f"s{n}", "task": "noop", "needs": [f"s{n - 1}"]} for n in range(1, 10)]
    stage.store({"id": "chain", "steps": chain})
    stage.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stage, gate)
    low = stage.trigger("chain", priority=90)
    high = stage.trigger("chain", priority=60)
    between = stage.trigger("quick", priority=80)
    look(stage)
    gate.touch()
    stage.finished(low)
    last_high = max(call.ended for call in stage.calls(high))
    first_low = min(call.began for call in stage.calls(low))
    assert last_high <= began(stage, between) <= first_low


def test_a_map_under_way_lets_better_ones_go_between_its_turns(stage: Stage) -> None:
    stage.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    steps = [
        {"id": "m", "task": "nap", "needs": [], "map": {"over": "${input.list}"}},
        {"id": "z", "task": "noop", "needs": ["m"]},
    ]
    stage.store({"id": "naps", "steps": steps})
    mapped = stage.trigger("naps", {"list": list(range(150))}, priority=140)
    stage.until(lambda: len(stage.calls(mapped)) > 3, "the map does not run")
    better = [stage.trigger("quick", priority=priority) for priority in (120, 110, 130)]
    starts = [began(stage, run_id) for run_id in better]
    assert stage.finished(mapped).status == "completed"
    naps = [call.began for call in stage.calls(mapped) if call.step_id == "m"]
    assert len(naps) == 150
    # 50 ms each: a second until the parent has looked, and a turn.
    assert sum(start > max(starts) for start in naps) > 50
    assert starts[1] < starts[0] < starts[2]


def test_a_wide_join_fires_though_other_messages_took_its_parts(stage: Stage, gate: Path) -> None:
    many = [f"w{number}" for number in range(30)]
    steps = [{"id": "a", "task": "noop", "needs": []}]
    steps += [{"id": each, "task": "noop", "needs": ["a"]} for each in many]
    stage.store({"id": "wide", "steps": [*steps, {"id": "z", "task": "noop", "needs": many}]})
    stage.store({"id": "quick", "steps": [{"id": "only", "task": "noop"}]})
    hold(stage, gate)
    others = [stage.trigger("quick", priority=priority) for priority in (95, 96, 97, 98) * 5]
    wide = [stage.trigger("wide", priority=priority) for priority in (60, 70)]
    look(stage)
    gate.touch()
    for run_id in wide:
        assert stage.finished(run_id).status == "completed"
        assert stage.called(run_id) == {each: 1 for each in ["a", *many, "z"]}
    last = max(call.ended for run_id in wide for call in stage.calls(run_id))
    assert last <= min(began(stage, run_id) for run_id in others)
