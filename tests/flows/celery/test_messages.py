"""Messages that come twice, too early, or for nobody."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import ChordPart, JoinCheck, Released
from pipeweave.orchestrator.domain.plan import END

# What is younger than that is not yet missed by the tick.
AHEAD = timedelta(seconds=30)

WIDE: dict[str, Any] = {
    "id": "wide",
    "steps": [
        {"id": "a", "task": "noop", "needs": []},
        *({"id": f"b{number}", "task": "noop", "needs": ["a"]} for number in range(10)),
        {"id": "c", "task": "noop", "needs": [f"b{number}" for number in range(10)]},
        {"id": "d", "task": "double", "map": {"over": "${input.list}"}},
        {"id": "e", "task": "noop", "needs": ["d", "a"]},
    ],
}
LIST = list(range(40))
ONCE = Counter({"a": 1, **{f"b{number}": 1 for number in range(10)}, "c": 1, "d": 40, "e": 1})


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    return own_stack


def released(stack: LiveStack, run_id: UUID) -> list[Released]:
    """A message for each task run there is, again."""
    return [
        Released(run_id, ids.ordinal_of(row.id), row.attempt, row.task_id, row.queue, row.priority)
        for row in stack.task_runs(run_id)
        if row.kind != "map"
    ]


def is_quiet(stack: LiveStack) -> bool:
    """Whether no process said that anything went wrong."""
    lines = [line for line in stack.logs().splitlines() if line.startswith("{")]
    return not any(json.loads(line)["level"] in ("error", "critical") for line in lines)


def test_doubled_messages_change_nothing(stack: LiveStack) -> None:
    stack.store(WIDE)
    run_id = stack.trigger("wide", {"list": LIST})
    for _ in range(5):
        stack.send(*released(stack, run_id), *(JoinCheck(run_id, n, stack.queue()) for n in range(15)))
    assert stack.finished(run_id).status == "completed"
    stack.settle()
    assert stack.called(run_id) == ONCE
    assert is_quiet(stack)


def test_doubled_messages_of_wide_joins_and_maps_change_nothing(stack: LiveStack, gate: Path) -> None:
    wide = [f"b{number}" for number in range(150)]
    document = {
        "id": "doubled",
        "steps": [
            *({"id": each, "task": "noop", "needs": []} for each in wide),
            {"id": "join", "task": "noop", "needs": wide},
            {"id": "each", "task": "double", "needs": [], "map": {"over": "${input.list}"}},
            {"id": "after", "task": "noop", "needs": ["each"]},
        ],
    }
    stack.store(document)
    stack.store({"id": "held", "steps": [{"id": "only", "task": "hold"}]})
    busy = [stack.trigger("held", {"path": str(gate)}) for _ in range(4)]
    stack.until(lambda: stack.deployment.publisher.depth(stack.queue()) <= 2, "the worker is not busy")
    run_id = stack.trigger("doubled", {"list": list(range(300))})
    # Fewer where PostgreSQL knows already how short these calls are.
    assert stack.double_messages() > 10
    gate.touch()
    ticks = itertools.count(1)

    def is_final() -> bool:
        # A part that was counted while its double still worked is not counted again: the tick asks.
        if next(ticks) % 50 == 0:
            stack.tick(AHEAD)
        return str(stack.run(run_id).status) == "completed"

    stack.until(is_final, "the run did not end")
    for each in busy:
        assert stack.finished(each).status == "completed"
    stack.settle()
    expected = Counter({**dict.fromkeys(wide, 1), "join": 1, "each": 300, "after": 1})
    assert stack.called(run_id) == expected
    assert Counter(call.map_index for call in stack.calls(run_id) if call.step_id == "each") == Counter(
        range(300)
    )
    assert is_quiet(stack)


def test_messages_that_come_after_the_end_change_nothing(stack: LiveStack) -> None:
    run = stack.ran(WIDE, {"list": LIST})
    before = stack.task_runs(run.id)
    events = stack.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run.id)
    checks = [JoinCheck(run.id, number, stack.queue()) for number in range(15)]
    parts = [
        ChordPart(run.id, join, stack.queue(), message=number) for join in (12, 13) for number in range(60)
    ]
    stack.send(*released(stack, run.id), *checks, *parts)
    stack.settle()
    assert stack.task_runs(run.id) == before
    assert stack.run(run.id) == run
    assert stack.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run.id) == events
    assert stack.called(run.id) == ONCE
    assert is_quiet(stack)


def test_a_join_is_not_released_before_its_predecessors_ended(stack: LiveStack, gate: Path) -> None:
    document = {
        "id": "early",
        "steps": [
            {"id": "hold", "task": "hold", "needs": []},
            *({"id": f"b{number}", "task": "noop", "needs": []} for number in range(9)),
            {"id": "join", "task": "noop", "needs": ["hold", *(f"b{number}" for number in range(9))]},
        ],
    }
    stack.store(document)
    run_id = stack.trigger("early", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step does not run")
    checks = [JoinCheck(run_id, 11, stack.queue()), JoinCheck(run_id, END, stack.queue())]
    parts = [ChordPart(run_id, 11, stack.queue(), message=number) for number in range(20, 40)]
    stack.send(*checks, *checks, *parts)
    stack.settle()
    assert stack.statuses(run_id)["join"] == "pending"
    assert stack.run(run_id).status == "running"
    gate.touch()
    # The parts that nobody sent may have fired the chord too early; then the tick releases the join.
    stack.until(lambda: stack.statuses(run_id)["hold"] == "completed", "the held step did not end")
    stack.tick(AHEAD)
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id)["join"] == 1


def test_messages_for_unknown_runs_attempts_and_steps_change_nothing(stack: LiveStack, gate: Path) -> None:
    unknown, queue = ids.new_id(), stack.queue()
    stack.store({"id": "held", "steps": [{"id": "only", "task": "hold"}, {"id": "after", "task": "noop"}]})
    run_id = stack.trigger("held", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step does not run")
    stack.send(
        Released(unknown, 1, 1, "noop", queue, 100),
        Released(run_id, 1, 2, "hold", queue, 100),
        Released(run_id, 2, 1, "noop", queue, 100),
        Released(run_id, 7, 1, "noop", queue, 100),
        JoinCheck(unknown, 1, queue),
        JoinCheck(unknown, END, queue),
        ChordPart(unknown, 1, queue, message=0),
    )
    stack.settle()
    assert stack.statuses(run_id) == {"only": "running", "after": "pending"}
    gate.touch()
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {"only": 1, "after": 1}
    assert is_quiet(stack)
