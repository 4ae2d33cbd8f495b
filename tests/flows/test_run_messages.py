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
from support.live_stack import Stage

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import JoinCheck, Part, Released
from pipeweave.orchestrator.domain.plan import END

pytestmark = pytest.mark.timeout(180)

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


def released(stage: Stage, run_id: UUID) -> list[Released]:
    """A message for each task run there is, again."""
    return [
        Released(run_id, ids.ordinal_of(row.id), row.attempt, row.task_id, row.queue, row.priority)
        for row in stage.task_runs(run_id)
        if row.kind != "map"
    ]


def is_quiet(stage: Stage) -> bool:
    """Whether no process said that anything went wrong."""
    lines = [line for line in stage.logs().splitlines() if line.startswith("{")]
    return not any(json.loads(line)["level"] in ("error", "critical") for line in lines)


def test_doubled_messages_change_nothing(stage: Stage) -> None:
    stage.store(WIDE)
    run_id = stage.trigger("wide", {"list": LIST})
    for _ in range(5):
        stage.send(*released(stage, run_id), *(JoinCheck(run_id, n, stage.queue()) for n in range(15)))
    assert stage.finished(run_id).status == "completed"
    stage.settle()
    assert stage.called(run_id) == ONCE
    assert is_quiet(stage)


def test_doubled_messages_of_wide_joins_and_maps_change_nothing(stage: Stage, gate: Path) -> None:
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
    stage.store(document)
    stage.store({"id": "held", "steps": [{"id": "only", "task": "hold"}]})
    busy = [stage.trigger("held", {"path": str(gate)}) for _ in range(4)]
    stage.until(lambda: stage.deployment.canvas.depth(stage.queue()) <= 2, "the worker is not busy")
    run_id = stage.trigger("doubled", {"list": list(range(300))})
    assert stage.double_messages() > 100
    gate.touch()
    ticks = itertools.count(1)

    def is_final() -> bool:
        # A part that was counted while its double still worked is not counted again: the tick asks.
        if next(ticks) % 50 == 0:
            stage.tick(AHEAD)
        return str(stage.run(run_id).status) == "completed"

    stage.until(is_final, "the run did not end")
    for each in busy:
        assert stage.finished(each).status == "completed"
    stage.settle()
    expected = Counter({**dict.fromkeys(wide, 1), "join": 1, "each": 300, "after": 1})
    assert stage.called(run_id) == expected
    assert Counter(call.map_index for call in stage.calls(run_id) if call.step_id == "each") == Counter(
        range(300)
    )
    assert is_quiet(stage)


def test_messages_that_come_after_the_end_change_nothing(stage: Stage) -> None:
    run = stage.ran(WIDE, {"list": LIST})
    before = stage.task_runs(run.id)
    events = stage.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run.id)
    checks = [JoinCheck(run.id, number, stage.queue()) for number in range(15)]
    parts = [Part(run.id, join, stage.queue(), message=number) for join in (12, 13) for number in range(60)]
    stage.send(*released(stage, run.id), *checks, *parts)
    stage.settle()
    assert stage.task_runs(run.id) == before
    assert stage.run(run.id) == run
    assert stage.rows("SELECT count(*) FROM events WHERE run_id = :id", id=run.id) == events
    assert stage.called(run.id) == ONCE
    assert is_quiet(stage)


def test_a_join_is_not_released_before_its_predecessors_ended(stage: Stage, gate: Path) -> None:
    document = {
        "id": "early",
        "steps": [
            {"id": "hold", "task": "hold", "needs": []},
            *({"id": f"b{number}", "task": "noop", "needs": []} for number in range(9)),
            {"id": "join", "task": "noop", "needs": ["hold", *(f"b{number}" for number in range(9))]},
        ],
    }
    stage.store(document)
    run_id = stage.trigger("early", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "the step does not run")
    checks = [JoinCheck(run_id, 11, stage.queue()), JoinCheck(run_id, END, stage.queue())]
    parts = [Part(run_id, 11, stage.queue(), message=number) for number in range(20, 40)]
    stage.send(*checks, *checks, *parts)
    stage.settle()
    assert stage.statuses(run_id)["join"] == "pending"
    assert stage.run(run_id).status == "running"
    gate.touch()
    # The parts that nobody sent may have fired the chord too early; then the tick releases the join.
    stage.until(lambda: stage.statuses(run_id)["hold"] == "completed", "the held step did not end")
    stage.tick(AHEAD)
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id)["join"] == 1


def test_messages_for_unknown_runs_attempts_and_steps_change_nothing(stage: Stage, gate: Path) -> None:
    unknown, queue = ids.new_id(), stage.queue()
    stage.store({"id": "held", "steps": [{"id": "only", "task": "hold"}, {"id": "after", "task": "noop"}]})
    run_id = stage.trigger("held", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "the step does not run")
    stage.send(
        Released(unknown, 1, 1, "noop", queue, 100),
        Released(run_id, 1, 2, "hold", queue, 100),
        Released(run_id, 2, 1, "noop", queue, 100),
        Released(run_id, 7, 1, "noop", queue, 100),
        JoinCheck(unknown, 1, queue),
        JoinCheck(unknown, END, queue),
        Part(unknown, 1, queue, message=0),
    )
    stage.settle()
    assert stage.statuses(run_id) == {"only": "running", "after": "pending"}
    gate.touch()
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id) == {"only": 1, "after": 1}
    assert is_quiet(stage)
