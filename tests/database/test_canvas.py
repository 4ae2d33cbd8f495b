"""What Celery and Redis are relied upon for: looked at in the broker itself, without a worker."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.orchestrator.broker import make_celery
from pipeweave.orchestrator.canvas import JOIN_TASK, RUN_TASK, Canvas, level
from pipeweave.orchestrator.database import Database
from pipeweave.orchestrator.outbox import Chord, JoinCheck, Outgoing, Part, Released
from pipeweave.settings import Settings

QUEUE = "pipeweave.canvas-tests.python"


@pytest.fixture
def canvas(fresh_broker_url: str) -> Iterator[Canvas]:
    made = Canvas(make_celery(Settings(broker_url=fresh_broker_url)))
    redis(made).flushdb()
    yield made
    redis(made).flushdb()
    redis(made).close()
    made.app.close()


def redis(canvas: Canvas) -> Any:
    backend: Any = canvas.app.backend
    return backend.client


def run() -> UUID:
    return ids.new_id()


def released(run_id: UUID, count: int, priority: int = 100, joins: tuple[int, ...] = ()) -> list[Outgoing]:
    return [Released(run_id, number, 1, "t", QUEUE, priority, joins) for number in range(1, count + 1)]


def messages(canvas: Canvas) -> list[tuple[str, list[Any]]]:
    """Task name and arguments of each message, the way a worker would take them: best level first."""
    client = redis(canvas)
    found = []
    for suffix in ("", "\x06\x163", "\x06\x166", "\x06\x169"):
        for raw in reversed(client.lrange(QUEUE + suffix, 0, -1)):
            message = json.loads(raw)
            arguments = json.loads(base64.b64decode(message["body"]))[0]
            found.append((message["headers"]["task"], arguments))
    return found


def test_a_message_carries_ids_and_an_attempt_and_nothing_else(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish(released(run_id, 1))
    assert messages(canvas) == [(RUN_TASK, [run_id.hex, [1], 1, -1, []])]
    assert canvas.depth(QUEUE) == 1


def test_messages_leave_in_their_order(canvas: Canvas) -> None:
    runs = [run() for _ in range(20)]
    canvas.publish([each for run_id in runs for each in released(run_id, 1)])
    assert [arguments[0] for _, arguments in messages(canvas)] == [run_id.hex for run_id in runs]


@pytest.mark.parametrize(
    ("priority", "expected"), [(-5, 0), (49, 0), (50, 3), (99, 3), (100, 6), (149, 6), (150, 9), (10_000, 9)]
)
def test_a_priority_has_one_of_four_levels(priority: int, expected: int) -> None:
    assert level(priority) == expected


def test_a_better_priority_is_taken_first_and_counts_for_the_depth(canvas: Canvas) -> None:
    late, usual, soon, first = run(), run(), run(), run()
    for run_id, priority in ((late, 200), (usual, 100), (soon, 60), (first, 1)):
        canvas.publish(released(run_id, 1, priority))
    assert [arguments[0] for _, arguments in messages(canvas)] == [x.hex for x in (first, soon, usual, late)]
    assert canvas.depth(QUEUE) == 4


def test_a_chord_s_body_is_sent_when_all_parts_were_counted_and_only_once(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Chord(run_id, 7, 3)])
    for number in (1, 2):
        canvas.count(Part(run_id, 7, QUEUE, ordinal=number))
        assert messages(canvas) == []
    canvas.count(Part(run_id, 7, QUEUE, ordinal=3))
    assert messages(canvas) == [(JOIN_TASK, [run_id.hex, 7])]
    for number in (1, 2, 3):
        canvas.count(Part(run_id, 7, QUEUE, ordinal=number))
    assert len(messages(canvas)) == 1


def test_a_part_that_is_counted_twice_counts_once(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Chord(run_id, 7, 2)])
    for _ in range(5):
        canvas.count(Part(run_id, 7, QUEUE, ordinal=1))
    assert messages(canvas) == []
    canvas.count(Part(run_id, 7, QUEUE, ordinal=2))
    assert len(messages(canvas)) == 1


def test_messages_and_members_are_parts_of_one_chord(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Chord(run_id, 7, 1), *released(run_id, 3, joins=(7,))])
    sent = messages(canvas)
    assert [task for task, _ in sent] == [RUN_TASK] * 3
    canvas.count(Part(run_id, 7, QUEUE, ordinal=9))
    for _, arguments in sent:
        assert len(messages(canvas)) == 3
        canvas.count(Part(run_id, 7, QUEUE, message=arguments[3]))
    assert [task for task, _ in messages(canvas)].count(JOIN_TASK) == 1


def test_parts_of_an_unknown_chord_send_nothing(canvas: Canvas) -> None:
    for number in range(5):
        canvas.count(Part(run(), 7, QUEUE, ordinal=number))
    assert messages(canvas) == []


def test_parts_may_be_counted_in_the_outbox_that_opens_the_chord(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Part(run_id, 7, QUEUE, ordinal=1), Chord(run_id, 7, 1)])
    assert messages(canvas) == [(JOIN_TASK, [run_id.hex, 7])]


def test_a_check_goes_before_steps(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([*released(run_id, 1, priority=1), JoinCheck(run_id, 7, QUEUE)])
    canvas.publish([*released(run_id, 1), JoinCheck(run_id, 8, QUEUE)])
    assert [task for task, _ in messages(canvas)] == [RUN_TASK, JOIN_TASK, JOIN_TASK, RUN_TASK]


def test_a_large_outbox_leaves_in_few_round_trips(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish(released(run_id, 1))
    client = redis(canvas)
    before = client.info("commandstats")["cmdstat_lpush"]["calls"]
    reads = client.info("stats")["total_reads_processed"]
    canvas.publish([each for _ in range(500) for each in released(run(), 1)])
    assert client.info("commandstats")["cmdstat_lpush"]["calls"] - before == 500
    assert client.info("stats")["total_reads_processed"] - reads < 100
    assert canvas.depth(QUEUE) == 501


@pytest.mark.timeout(30)
def test_a_broker_that_is_gone_does_not_hold_up_a_commit_for_long_and_loses_no_row(
    database: Database,
) -> None:
    gone = Canvas(make_celery(Settings(broker_url="redis://127.0.0.1:1/0")))
    database.sender = gone.publish
    with database.transaction() as tx:
        tx.send(*released(run(), 1))
        tx.execute("CREATE TABLE canvas_tests_kept (n integer)")
    with database.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM canvas_tests_kept").scalar_one() == 0
        tx.execute("DROP TABLE canvas_tests_kept")
