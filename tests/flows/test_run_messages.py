"""Messages that come twice, too early, for nobody, or not at all."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from model import random_graph, reference
from stage import Stage

from pipeweave import ids
from pipeweave.orchestrator.outbox import JoinCheck, Part, Released
from pipeweave.orchestrator.plan import END
from pipeweave.rules import FAILURE_MODES

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


def calls_by_step(stage: Stage, run_id: UUID) -> Counter[str | None]:
    return Counter(call.step_id for call in stage.calls(run_id))


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


# --- twice, early, for nobody -----------------------------------------------------------------------------


def test_doubled_messages_change_nothing(stage: Stage) -> None:
    stage.store(WIDE)
    run_id = stage.trigger("wide", {"list": LIST})
    for _ in range(5):
        stage.send(*released(stage, run_id), *(JoinCheck(run_id, n, stage.queue()) for n in range(15)))
    assert stage.finished(run_id).status == "completed"
    stage.settle()
    assert calls_by_step(stage, run_id) == ONCE
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
    assert calls_by_step(stage, run_id) == expected
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
    assert calls_by_step(stage, run.id) == ONCE
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
    assert calls_by_step(stage, run_id)["join"] == 1


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
    assert calls_by_step(stage, run_id) == {"only": 1, "after": 1}
    assert is_quiet(stage)


# --- lost -------------------------------------------------------------------------------------------------


def test_a_run_whose_messages_never_left_is_sent_by_the_tick(stage: Stage) -> None:
    stage.store(WIDE)
    run_id = stage.trigger_unsent("wide", {"list": LIST})
    assert stage.tick().republished == 0, "it is too fresh to be missed"
    assert stage.statuses(run_id)["a"] == "queued"
    assert stage.tick(AHEAD).republished == 1
    assert stage.finished(run_id).status == "completed"
    assert calls_by_step(stage, run_id) == ONCE


def test_a_limited_task_whose_message_never_left_is_sent_by_the_tick(stage: Stage) -> None:
    stage.store({"id": "limited", "steps": [{"id": "only", "task": "limited"}]})
    runs = [stage.trigger_unsent("limited") for _ in range(5)]
    statuses = Counter(stage.statuses(run_id)["only"] for run_id in runs)
    assert statuses == {"queued": 2, "ready": 3}
    stage.tick(AHEAD)
    assert {stage.finished(run_id).status for run_id in runs} == {"completed"}


def test_what_waits_in_a_long_queue_is_not_sent_again(stage: Stage, gate: Path) -> None:
    stage.store({"id": "held-many", "steps": [{"id": "only", "task": "hold"}]})
    runs = [stage.trigger("held-many", {"path": str(gate)}) for _ in range(30)]
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    depth = stage.deployment.canvas.depth(stage.queue())
    assert depth > 0
    assert stage.tick(AHEAD).republished == 0
    assert stage.deployment.canvas.depth(stage.queue()) == depth
    gate.touch()
    assert {stage.finished(run_id).status for run_id in runs} == {"completed"}


def held_fan_out(id: str) -> dict[str, Any]:
    wide = [f"b{number}" for number in range(12)]
    return {
        "id": id,
        "steps": [
            {"id": "a", "task": "noop", "needs": []},
            *({"id": each, "task": "hold", "needs": ["a"]} for each in wide),
            {"id": "join", "task": "noop", "needs": wide},
        ],
    }


def held_map(id: str) -> dict[str, Any]:
    params = {"path": "${input.path}"}
    over = {"over": "${input.list}", "as": "number"}
    return {
        "id": id,
        "steps": [
            {"id": "each", "task": "hold_item", "needs": [], "params": params, "map": over},
            {"id": "after", "task": "noop"},
        ],
    }


def test_a_wiped_broker_loses_neither_queued_steps_nor_their_join(stage: Stage, gate: Path) -> None:
    stage.store(held_fan_out("wiped"))
    run_id = stage.trigger("wiped", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    stage.wipe_broker()
    gate.touch()
    ticks = itertools.count()

    def is_final() -> bool:
        if next(ticks) % 10 == 0:
            stage.tick(AHEAD)
        return str(stage.run(run_id).status) == "completed"

    stage.until(is_final, "the run was not healed")
    stage.settle()
    assert calls_by_step(stage, run_id) == {"a": 1, "join": 1, **{f"b{number}": 1 for number in range(12)}}


def test_a_chord_that_never_fired_is_released_by_the_tick(stage: Stage, gate: Path) -> None:
    stage.store(held_fan_out("forgotten"))
    run_id = stage.trigger("forgotten", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    assert stage.forget_chords(run_id) > 0
    gate.touch()
    stage.until(
        lambda: Counter(stage.statuses(run_id).values()) == {"completed": 13, "pending": 1},
        "the steps before the join did not end",
    )
    stage.settle()
    assert stage.statuses(run_id)["join"] == "pending"
    assert stage.tick(AHEAD).joins_checked > 0
    assert stage.finished(run_id).status == "completed"
    assert calls_by_step(stage, run_id)["join"] == 1


def test_a_map_whose_chord_never_fired_is_finished_by_the_tick(stage: Stage, gate: Path) -> None:
    stage.store(held_map("forgotten-map"))
    run_id = stage.trigger("forgotten-map", {"path": str(gate), "list": list(range(16))})
    stage.until(Path(f"{gate}.held").exists, "no item runs")
    assert stage.forget_chords(run_id) > 0
    gate.touch()
    done = lambda: {row.status for row in stage.items(run_id, "each")} == {"completed"}  # noqa: E731
    stage.until(done, "the items did not end")
    stage.settle()
    assert stage.statuses(run_id) == {"each": "waiting", "after": "pending"}
    stage.tick(AHEAD)
    assert stage.finished(run_id).status == "completed"


def test_whatever_the_broker_loses_runs_end_as_the_model_says(stage: Stage) -> None:
    chance = random.Random(4)
    triggered = []
    for number in range(6):
        document, wishes = random_graph(chance, f"wiped-{number}")
        stage.store(document)
        for mode in FAILURE_MODES:
            run_id = stage.trigger(document["id"], wishes, failure_mode=mode)
            triggered.append((run_id, document, wishes, mode))
    wipes = itertools.count()

    def all_ended() -> bool:
        if next(wipes) % 25 == 0:
            stage.wipe_broker()
            stage.tick(AHEAD)
        ended = stage.rows("SELECT count(*) FROM runs WHERE finished_at IS NULL")
        return bool(ended[0][0] == 0)

    stage.until(all_ended, "runs were not healed", deadline_s=120)
    for run_id, document, wishes, mode in triggered:
        expected = reference(document, wishes, mode)
        assert stage.run(run_id).status == expected.run_status
        if expected.run_status != "failed" or mode != "fail-fast":
            assert stage.statuses(run_id) == expected.statuses
            assert calls_by_step(stage, run_id) == expected.calls


def test_items_whose_message_a_killed_worker_took_along_are_sent_again(stage: Stage, gate: Path) -> None:
    doomed = stage.start_worker("steps.py", concurrency=1)
    stage.store(held_map("taken-along"))
    # Ten items to a message: the worker dies with the first of them under way.
    run_id = stage.trigger("taken-along", {"path": str(gate), "list": list(range(640))})

    def under_way() -> int:
        rows = [row for row in stage.items(run_id, "each") if row.status == "running"]
        return sum(f":{doomed}:" in row.worker for row in rows)

    stage.until(lambda: under_way() > 0, "the worker does not call items")
    stage.kill(doomed)
    lost = under_way()
    assert lost < 10
    gate.touch()
    ticks = itertools.count()

    def all_others_ended() -> bool:
        if next(ticks) % 20 == 0:
            stage.tick(AHEAD)
        return Counter(row.status for row in stage.items(run_id, "each"))["completed"] == 640 - lost

    stage.until(all_others_ended, "items stayed lost")
    stage.settle()
    called = Counter(call.map_index for call in stage.calls(run_id))
    assert (len(called), set(called.values())) == (640 - lost, {1})
    stage.cancel(run_id)


def test_beat_heals_a_wiped_broker_by_itself(stage: Stage, gate: Path) -> None:
    beat = stage.start_beat()
    try:
        stage.store(held_fan_out("beaten"))
        run_id = stage.trigger("beaten", {"path": str(gate)})
        stage.until(Path(f"{gate}.held").exists, "no step runs")
        stage.wipe_broker()
        gate.touch()
        assert stage.finished(run_id).status == "completed"
        assert calls_by_step(stage, run_id)["join"] == 1
    finally:
        stage.stop(beat)
