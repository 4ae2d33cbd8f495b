"""Messages and chords that got lost: the tick sends them again, and every run ends as it should."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import Stage
from support.oracle import random_graph, reference

from pipeweave.spec.rules import FAILURE_MODES

pytestmark = pytest.mark.timeout(180)

# What is younger than that is not yet missed by the tick.
AHEAD = timedelta(seconds=30)


def test_a_run_whose_messages_never_left_is_sent_by_the_tick(stage: Stage) -> None:
    stage.store(
        {
            "id": "unsent",
            "steps": [
                {"id": "a", "task": "noop", "needs": []},
                {"id": "each", "task": "double", "map": {"over": "${input.list}"}},
            ],
        }
    )
    run_id = stage.trigger_unsent("unsent", {"list": list(range(40))})
    assert stage.tick().republished == 0, "it is too fresh to be missed"
    assert stage.statuses(run_id)["a"] == "queued"
    assert stage.tick(AHEAD).republished == 1
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id) == {"a": 1, "each": 40}


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
    assert stage.called(run_id) == {"a": 1, "join": 1, **{f"b{number}": 1 for number in range(12)}}


def test_a_chord_that_never_fired_is_released_by_the_tick(stage: Stage, gate: Path) -> None:
    stage.store(held_fan_out("forgotten"))
    run_id = stage.trigger("forgotten", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    assert stage.lose_parts(run_id) > 0
    gate.touch()
    stage.until(
        lambda: Counter(stage.statuses(run_id).values()) == {"completed": 13, "pending": 1},
        "the steps before the join did not end",
    )
    stage.settle()
    assert stage.statuses(run_id)["join"] == "pending"
    assert stage.tick(AHEAD).joins_checked > 0
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id)["join"] == 1


def test_a_chord_that_was_forgotten_is_asked_about_by_its_messages(stage: Stage, gate: Path) -> None:
    stage.store(held_fan_out("unsized"))
    run_id = stage.trigger("unsized", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    assert stage.forget_chords(run_id) > 0
    gate.touch()
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id)["join"] == 1


def test_a_map_whose_chord_never_fired_is_finished_by_the_tick(stage: Stage, gate: Path) -> None:
    stage.store(held_map("forgotten-map"))
    run_id = stage.trigger("forgotten-map", {"path": str(gate), "list": list(range(16))})
    stage.until(Path(f"{gate}.held").exists, "no item runs")
    assert stage.lose_parts(run_id) > 0
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
            assert stage.called(run_id) == expected.calls


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
        assert stage.called(run_id)["join"] == 1
    finally:
        stage.stop(beat)


def test_a_step_that_ends_while_its_connection_is_cut_is_stored_all_the_same(
    stage: Stage, gate: Path
) -> None:
    stage.store({"id": "cut", "steps": [{"id": "only", "task": "hold"}, {"id": "then", "task": "noop"}]})
    run_id = stage.trigger("cut", {"path": str(gate)})
    stage.until(Path(f"{gate}.held").exists, "no step runs")
    cut = stage.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert cut
    gate.touch()
    assert stage.finished(run_id).status == "completed"
    assert stage.called(run_id) == {"only": 1, "then": 1}
