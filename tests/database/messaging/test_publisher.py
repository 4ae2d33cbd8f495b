"""What is sent, in which order and how often: looked at in the broker itself."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from support.redis_inspection import QUEUE, messages, redis, released, run

from pipeweave.orchestrator.domain.outbox import Asked, Chord, JoinCheck, Outgoing, Part, PutBack
from pipeweave.orchestrator.messaging.publisher import JOIN_TASK, RUN_TASK, Canvas, level


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


def test_the_messages_of_a_chord_of_unknown_size_ask_about_its_join(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish(released(run_id, 2, joins=(7,)))
    before = len(messages(canvas))
    canvas.publish([Part(run_id, 7, QUEUE, message=0), Asked(run_id, 7), JoinCheck(run_id, 7, QUEUE)])
    canvas.count(Part(run_id, 7, QUEUE, message=1))
    asked = [task for task, _ in messages(canvas)].count(JOIN_TASK)
    assert (len(messages(canvas)) - before, asked) == (3, 3)


def test_a_chord_that_has_fired_is_not_asked_about(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish(released(run_id, 2, joins=(7,)))
    for number in (0, 1, 0, 1):
        canvas.count(Part(run_id, 7, QUEUE, message=number))
    assert [task for task, _ in messages(canvas)].count(JOIN_TASK) == 1


def test_a_message_that_gives_way_is_the_next_one_again_and_as_old_as_it_was(canvas: Canvas) -> None:
    first, second = run(), run()
    canvas.publish(released(first, 1, 60))
    since = datetime(2026, 11, 20, 12, tzinfo=UTC)
    canvas.publish([PutBack(second, (3, 4), 2, QUEUE, 70, 5, (7,), since)])
    assert messages(canvas) == [
        (RUN_TASK, [second.hex, [3, 4], 2, 5, [7]]),
        (RUN_TASK, [first.hex, [1], 1, -1, []]),
    ]
    assert canvas.oldest(QUEUE)[level(70)] == since.timestamp()


def test_parts_may_be_counted_in_the_outbox_that_opens_the_chord(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Part(run_id, 7, QUEUE, ordinal=1), Chord(run_id, 7, 1)])
    assert messages(canvas) == [(JOIN_TASK, [run_id.hex, 7])]


def test_a_check_goes_before_steps(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([*released(run_id, 1, priority=1), JoinCheck(run_id, 7, QUEUE)])
    canvas.publish([*released(run_id, 1), JoinCheck(run_id, 8, QUEUE)])
    assert [task for task, _ in messages(canvas)] == [RUN_TASK, JOIN_TASK, JOIN_TASK, RUN_TASK]


def round_trips(canvas: Canvas, outbox: list[Outgoing]) -> int:
    """How many times the broker was asked something to publish this."""
    asked: list[int] = []
    pipeline = canvas._redis
    exchange = pipeline._exchange

    def counted(commands: Any) -> Any:
        asked.append(len(commands))
        return exchange(commands)

    pipeline._exchange = counted  # type: ignore[method-assign]
    try:
        canvas.publish(outbox)
    finally:
        pipeline._exchange = exchange  # type: ignore[method-assign]
    return len(asked)


def test_an_outbox_leaves_in_one_round_trip_whatever_it_holds(canvas: Canvas) -> None:
    run_id, other = run(), run()
    canvas.publish([Chord(other, 7, 50)])
    canvas.count(Part(other, 7, QUEUE, ordinal=49))
    outbox: list[Outgoing] = [
        *(Part(other, 7, QUEUE, ordinal=number) for number in range(20)),
        *(each for _ in range(500) for each in released(run(), 1)),
        *(Chord(run_id, number, 2) for number in range(10, 20)),
        JoinCheck(run_id, 3, QUEUE),
    ]
    assert round_trips(canvas, outbox) == 1
    assert canvas.depth(QUEUE) == 501


def test_the_part_that_completes_a_chord_costs_one_round_trip_more(canvas: Canvas) -> None:
    run_id = run()
    canvas.publish([Chord(run_id, 7, 2)])
    canvas.count(Part(run_id, 7, QUEUE, ordinal=1))
    assert round_trips(canvas, [Part(run_id, 7, QUEUE, ordinal=2)]) == 2


def test_nothing_to_send_asks_nothing(canvas: Canvas) -> None:
    assert round_trips(canvas, []) == 0


def test_a_broker_that_forgot_the_scripts_counts_all_the_same(canvas: Canvas) -> None:
    run_id = run()
    redis(canvas).script_flush()
    canvas.publish([Chord(run_id, 7, 3), *(Part(run_id, 7, QUEUE, ordinal=number) for number in range(3))])
    assert messages(canvas) == [(JOIN_TASK, [run_id.hex, 7])]


# --- when messages were sent ------------------------------------------------------------------------------


def test_the_oldest_message_of_each_level_says_when_it_was_sent(canvas: Canvas) -> None:
    assert canvas.oldest(QUEUE) == {0: None, 3: None, 6: None, 9: None}
    canvas._clock = iter([1_000.25, 2_000.0, 3_000.0]).__next__
    canvas.publish(released(run(), 1))
    canvas.publish(released(run(), 1))
    canvas.publish([JoinCheck(run(), 7, QUEUE)])
    assert canvas.oldest(QUEUE) == {0: 3_000.0, 3: None, 6: 1_000.25, 9: None}
    redis(canvas).rpop(QUEUE + "\x06\x166")
    assert canvas.oldest(QUEUE)[6] == 2_000.0


def test_a_chord_s_body_says_when_it_was_sent(canvas: Canvas) -> None:
    run_id = run()
    canvas._clock = iter([1_000.0, 2_000.0]).__next__
    canvas.publish([Chord(run_id, 7, 1)])
    canvas.count(Part(run_id, 7, QUEUE, ordinal=1))
    assert canvas.oldest(QUEUE)[0] == 2_000.0


def test_a_foreign_message_waits_but_nobody_knows_since_when(canvas: Canvas) -> None:
    redis(canvas).lpush(QUEUE, b"\xff not a message")
    assert canvas.oldest(QUEUE)[0] == 0.0


# --- threads and children ---------------------------------------------------------------------------------


def test_threads_publish_side_by_side(canvas: Canvas) -> None:
    def publish(_: int) -> None:
        for _ in range(50):
            canvas.publish(released(run(), 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8)))
    assert len({arguments[0] for _, arguments in messages(canvas)}) == 400


# Warned of by Python 3.12 and later when other threads exist, as they may in a test process.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_publishes_over_connections_of_its_own(canvas: Canvas) -> None:
    canvas.publish(released(run(), 1))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                canvas.publish(released(run(), 1))
            os._exit(0 if canvas.depth(QUEUE) > 0 else 1)
        children.append(child)
    for _ in range(50):
        canvas.publish(released(run(), 1))
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len({arguments[0] for _, arguments in messages(canvas)}) == 251
