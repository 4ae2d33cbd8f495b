"""Messages and chords that got lost: the tick sends them again, and every run ends as it should."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack
from support.oracle import random_graph, reference

from pipeweave.spec.rules import FAILURE_MODES

# What is younger than that is not yet missed by the tick.
AHEAD = timedelta(seconds=30)


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    return own_stack


def test_a_run_whose_messages_never_left_is_sent_by_the_tick(stack: LiveStack) -> None:
    stack.store(
        {
            "id": "unsent",
            "steps": [
                {"id": "a", "task": "noop", "needs": []},
                {"id": "each", "task": "double", "map": {"over": "${input.list}"}},
            ],
        }
    )
    run_id = stack.trigger_unsent("unsent", {"list": list(range(40))})
    assert stack.tick().republished == 0, "it is too fresh to be missed"
    assert stack.statuses(run_id)["a"] == "queued"
    # A chore that takes long is counted by the tick that finds it ended.
    stack.until(lambda: stack.tick(AHEAD).republished == 1, "no tick has sent the message again")
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {"a": 1, "each": 40}


def test_a_limited_task_whose_message_never_left_is_sent_by_the_tick(stack: LiveStack) -> None:
    stack.store({"id": "limited", "steps": [{"id": "only", "task": "limited"}]})
    runs = [stack.trigger_unsent("limited") for _ in range(5)]
    statuses = Counter(stack.statuses(run_id)["only"] for run_id in runs)
    assert statuses == {"queued": 2, "ready": 3}
    stack.tick(AHEAD)
    assert {stack.finished(run_id).status for run_id in runs} == {"completed"}


def test_messages_in_a_long_queue_are_not_sent_again(stack: LiveStack, gate: Path) -> None:
    stack.store({"id": "held-many", "steps": [{"id": "only", "task": "hold"}]})
    runs = [stack.trigger("held-many", {"path": str(gate)}) for _ in range(30)]
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    depth = stack.deployment.publisher.depth(stack.queue())
    assert depth > 0
    assert stack.tick(AHEAD).republished == 0
    assert stack.deployment.publisher.depth(stack.queue()) == depth
    gate.touch()
    assert {stack.finished(run_id).status for run_id in runs} == {"completed"}


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


def test_a_wiped_broker_loses_neither_queued_steps_nor_their_join(stack: LiveStack, gate: Path) -> None:
    stack.store(held_fan_out("wiped"))
    run_id = stack.trigger("wiped", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    stack.wipe_broker()
    gate.touch()
    ticks = itertools.count()

    def is_final() -> bool:
        if next(ticks) % 10 == 0:
            stack.tick(AHEAD)
        return str(stack.run(run_id).status) == "completed"

    stack.until(is_final, "the run was not healed")
    stack.settle()
    assert stack.called(run_id) == {"a": 1, "join": 1, **{f"b{number}": 1 for number in range(12)}}


def test_a_chord_that_never_fired_is_released_by_the_tick(stack: LiveStack, gate: Path) -> None:
    stack.store(held_fan_out("forgotten"))
    run_id = stack.trigger("forgotten", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    assert stack.lose_parts(run_id) > 0
    gate.touch()
    stack.until(
        lambda: Counter(stack.statuses(run_id).values()) == {"completed": 13, "pending": 1},
        "the steps before the join did not end",
    )
    stack.settle()
    assert stack.statuses(run_id)["join"] == "pending"
    stack.until(lambda: stack.tick(AHEAD).joins_checked > 0, "no tick has looked at the join")
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id)["join"] == 1


def test_a_chord_that_was_forgotten_is_asked_about_by_its_messages(stack: LiveStack, gate: Path) -> None:
    stack.store(held_fan_out("unsized"))
    run_id = stack.trigger("unsized", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    assert stack.forget_chords(run_id) > 0
    gate.touch()
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id)["join"] == 1


def test_a_map_whose_chord_never_fired_is_finished_by_the_tick(stack: LiveStack, gate: Path) -> None:
    stack.store(held_map("forgotten-map"))
    run_id = stack.trigger("forgotten-map", {"path": str(gate), "list": list(range(16))})
    stack.until(Path(f"{gate}.held").exists, "no item runs")
    assert stack.lose_parts(run_id) > 0
    gate.touch()
    done = lambda: {row.status for row in stack.items(run_id, "each")} == {"completed"}  # noqa: E731
    stack.until(done, "the items did not end")
    stack.settle()
    assert stack.statuses(run_id) == {"each": "waiting", "after": "pending"}
    stack.tick(AHEAD)
    assert stack.finished(run_id).status == "completed"


def test_runs_end_as_the_model_says_though_the_broker_is_wiped(stack: LiveStack) -> None:
    chance = random.Random(4)
    triggered = []
    for number in range(6):
        document, wishes = random_graph(chance, f"wiped-{number}")
        stack.store(document)
        for mode in FAILURE_MODES:
            run_id = stack.trigger(document["id"], wishes, failure_mode=mode)
            triggered.append((run_id, document, wishes, mode))
    wipes = itertools.count()

    def all_ended() -> bool:
        if next(wipes) % 25 == 0:
            stack.wipe_broker()
            stack.tick(AHEAD)
        ended = stack.rows("SELECT count(*) FROM runs WHERE finished_at IS NULL")
        return bool(ended[0][0] == 0)

    stack.until(all_ended, "runs were not healed", deadline_s=120)
    for run_id, document, wishes, mode in triggered:
        expected = reference(document, wishes, mode)
        assert stack.run(run_id).status == expected.run_status
        if expected.run_status != "failed" or mode != "fail-fast":
            assert stack.statuses(run_id) == expected.statuses
            assert stack.called(run_id) == expected.calls


def test_items_whose_message_a_killed_worker_took_along_are_sent_again(stack: LiveStack, gate: Path) -> None:
    doomed = stack.start_worker("steps.py", concurrency=1)
    stack.store(held_map("taken-along"))
    # Ten items to a message: the worker dies with the first of them under way.
    run_id = stack.trigger("taken-along", {"path": str(gate), "list": list(range(640))})

    def under_way() -> set[int]:
        rows = [row for row in stack.items(run_id, "each") if row.status == "running"]
        return {row.map_index for row in rows if f":{doomed}:" in row.worker}

    stack.until(lambda: len(under_way()) > 0, "the worker does not call items")
    stack.kill(doomed)
    lost = under_way()
    assert len(lost) < 10
    others = set(range(640)) - lost
    gate.touch()
    ticks = itertools.count()

    def all_others_ended() -> bool:
        if next(ticks) % 20 == 0:
            stack.tick(AHEAD)
        return others <= {row.map_index for row in stack.items(run_id, "each") if row.status == "completed"}

    stack.until(all_others_ended, "items stayed lost")
    stack.settle()
    # On a slow machine, a tick may have declared the worker lost: its items are then called again, and what
    # comes after the map is called, too.
    called = Counter(call.map_index for call in stack.calls(run_id) if call.map_index in others)
    assert called == Counter(others)
    stack.cancel(run_id)


def test_beat_heals_a_wiped_broker_by_itself(stack: LiveStack, gate: Path) -> None:
    beat = stack.start_beat()
    try:
        stack.store(held_fan_out("beaten"))
        run_id = stack.trigger("beaten", {"path": str(gate)})
        stack.until(Path(f"{gate}.held").exists, "no step runs")
        stack.wipe_broker()
        gate.touch()
        assert stack.finished(run_id).status == "completed"
        assert stack.called(run_id)["join"] == 1
    finally:
        stack.stop(beat)


def test_a_step_that_ends_while_its_connection_is_cut_is_stored_all_the_same(
    stack: LiveStack, gate: Path
) -> None:
    stack.store({"id": "cut", "steps": [{"id": "only", "task": "hold"}, {"id": "then", "task": "noop"}]})
    run_id = stack.trigger("cut", {"path": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    cut = stack.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert cut
    gate.touch()
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {"only": 1, "then": 1}
