"""What is sent, in which order and how often: looked at in the broker itself."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from support.redis_inspection import QUEUE, messages, redis, released, run

from pipeweave.orchestrator.domain.outbox import Chord, ChordPart, InvalidChord, JoinCheck, Outgoing, PutBack
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK, RUN_TASK
from pipeweave.orchestrator.messaging.publisher import Publisher, level


def test_a_message_carries_ids_and_an_attempt_and_nothing_else(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish(released(run_id, 1))
    assert messages(publisher) == [(RUN_TASK, [run_id.hex, [1], 1, -1, []])]
    assert publisher.depth(QUEUE) == 1


def test_messages_leave_in_their_order(publisher: Publisher) -> None:
    runs = [run() for _ in range(20)]
    publisher.publish([each for run_id in runs for each in released(run_id, 1)])
    assert [arguments[0] for _, arguments in messages(publisher)] == [run_id.hex for run_id in runs]


@pytest.mark.parametrize(
    ("priority", "expected"), [(-5, 0), (49, 0), (50, 3), (99, 3), (100, 6), (149, 6), (150, 9), (10_000, 9)]
)
def test_a_priority_has_one_of_four_levels(priority: int, expected: int) -> None:
    assert level(priority) == expected


def test_a_better_priority_is_taken_first_and_counts_for_the_depth(publisher: Publisher) -> None:
    late, usual, soon, first = run(), run(), run(), run()
    for run_id, priority in ((late, 200), (usual, 100), (soon, 60), (first, 1)):
        publisher.publish(released(run_id, 1, priority))
    assert [arguments[0] for _, arguments in messages(publisher)] == [
        x.hex for x in (first, soon, usual, late)
    ]
    assert publisher.depth(QUEUE) == 4


def test_a_chord_s_body_is_sent_when_all_parts_were_counted_and_only_once(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 3)])
    for number in (1, 2):
        publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=number))
        assert messages(publisher) == []
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=3))
    assert messages(publisher) == [(JOIN_TASK, [run_id.hex, 7])]
    for number in (1, 2, 3):
        publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=number))
    assert len(messages(publisher)) == 1


def test_a_part_that_is_counted_twice_counts_once(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 2)])
    for _ in range(5):
        publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=1))
    assert messages(publisher) == []
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=2))
    assert len(messages(publisher)) == 1


def test_messages_and_members_are_parts_of_one_chord(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 1), *released(run_id, 3, joins=(7,))])
    sent = messages(publisher)
    assert [task for task, _ in sent] == [RUN_TASK] * 3
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=9))
    for _, arguments in sent:
        assert len(messages(publisher)) == 3
        publisher.count(ChordPart(run_id, 7, QUEUE, message=arguments[3]))
    assert [task for task, _ in messages(publisher)].count(JOIN_TASK) == 1


def test_parts_of_an_unknown_chord_send_nothing(publisher: Publisher) -> None:
    for number in range(5):
        publisher.count(ChordPart(run(), 7, QUEUE, ordinal=number))
    assert messages(publisher) == []


def test_the_messages_of_a_chord_of_unknown_size_ask_about_its_join(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish(released(run_id, 2, joins=(7,)))
    before = len(messages(publisher))
    publisher.publish(
        [ChordPart(run_id, 7, QUEUE, message=0), InvalidChord(run_id, 7), JoinCheck(run_id, 7, QUEUE)]
    )
    publisher.count(ChordPart(run_id, 7, QUEUE, message=1))
    asked = [task for task, _ in messages(publisher)].count(JOIN_TASK)
    assert (len(messages(publisher)) - before, asked) == (3, 3)


def test_a_part_of_a_fired_chord_sends_no_check(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish(released(run_id, 2, joins=(7,)))
    for number in (0, 1, 0, 1):
        publisher.count(ChordPart(run_id, 7, QUEUE, message=number))
    assert [task for task, _ in messages(publisher)].count(JOIN_TASK) == 1


def test_a_message_that_is_put_back_is_next_again_and_keeps_its_age(publisher: Publisher) -> None:
    first, second = run(), run()
    publisher.publish(released(first, 1, 60))
    since = datetime(2026, 11, 20, 12, tzinfo=UTC)
    publisher.publish([PutBack(second, (3, 4), 2, QUEUE, 70, 5, (7,), since)])
    assert messages(publisher) == [
        (RUN_TASK, [second.hex, [3, 4], 2, 5, [7]]),
        (RUN_TASK, [first.hex, [1], 1, -1, []]),
    ]
    assert publisher.oldest(QUEUE)[level(70)] == since.timestamp()


def test_parts_may_be_counted_in_the_outbox_that_opens_the_chord(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([ChordPart(run_id, 7, QUEUE, ordinal=1), Chord(run_id, 7, 1)])
    assert messages(publisher) == [(JOIN_TASK, [run_id.hex, 7])]


def test_a_check_goes_before_steps(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([*released(run_id, 1, priority=1), JoinCheck(run_id, 7, QUEUE)])
    publisher.publish([*released(run_id, 1), JoinCheck(run_id, 8, QUEUE)])
    assert [task for task, _ in messages(publisher)] == [RUN_TASK, JOIN_TASK, JOIN_TASK, RUN_TASK]


def round_trips(publisher: Publisher, outbox: list[Outgoing]) -> int:
    """How many times the broker was asked something to publish this."""
    asked: list[int] = []
    pipeline = publisher._redis
    exchange = pipeline._exchange

    def counted(commands: Any, sent: Any) -> Any:
        asked.append(len(commands))
        return exchange(commands, sent)

    pipeline._exchange = counted  # type: ignore[method-assign]
    try:
        publisher.publish(outbox)
    finally:
        pipeline._exchange = exchange  # type: ignore[method-assign]
    return len(asked)


def test_an_outbox_leaves_in_one_round_trip_whatever_it_holds(publisher: Publisher) -> None:
    run_id, other = run(), run()
    publisher.publish([Chord(other, 7, 50)])
    publisher.count(ChordPart(other, 7, QUEUE, ordinal=49))
    outbox: list[Outgoing] = [
        *(ChordPart(other, 7, QUEUE, ordinal=number) for number in range(20)),
        *(each for _ in range(500) for each in released(run(), 1)),
        *(Chord(run_id, number, 2) for number in range(10, 20)),
        JoinCheck(run_id, 3, QUEUE),
    ]
    assert round_trips(publisher, outbox) == 1
    assert publisher.depth(QUEUE) == 501


def test_the_part_that_completes_a_chord_costs_one_round_trip_more(publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([Chord(run_id, 7, 2)])
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=1))
    assert round_trips(publisher, [ChordPart(run_id, 7, QUEUE, ordinal=2)]) == 2


def test_an_empty_outbox_sends_no_command(publisher: Publisher) -> None:
    assert round_trips(publisher, []) == 0


def test_a_broker_that_forgot_the_scripts_counts_all_the_same(publisher: Publisher) -> None:
    run_id = run()
    redis(publisher).script_flush()
    publisher.publish(
        [Chord(run_id, 7, 3), *(ChordPart(run_id, 7, QUEUE, ordinal=number) for number in range(3))]
    )
    assert messages(publisher) == [(JOIN_TASK, [run_id.hex, 7])]


# --- when messages were sent ------------------------------------------------------------------------------


def test_the_oldest_message_of_each_level_says_when_it_was_sent(publisher: Publisher) -> None:
    assert publisher.oldest(QUEUE) == {0: None, 3: None, 6: None, 9: None}
    publisher._clock = iter([1_000.25, 2_000.0, 3_000.0]).__next__
    publisher.publish(released(run(), 1))
    publisher.publish(released(run(), 1))
    publisher.publish([JoinCheck(run(), 7, QUEUE)])
    assert publisher.oldest(QUEUE) == {0: 3_000.0, 3: None, 6: 1_000.25, 9: None}
    redis(publisher).rpop(QUEUE + "\x06\x166")
    assert publisher.oldest(QUEUE)[6] == 2_000.0


def test_a_chord_s_body_says_when_it_was_sent(publisher: Publisher) -> None:
    run_id = run()
    publisher._clock = iter([1_000.0, 2_000.0]).__next__
    publisher.publish([Chord(run_id, 7, 1)])
    publisher.count(ChordPart(run_id, 7, QUEUE, ordinal=1))
    assert publisher.oldest(QUEUE)[0] == 2_000.0


def test_a_foreign_message_has_no_known_sending_time(publisher: Publisher) -> None:
    redis(publisher).lpush(QUEUE, b"\xff not a message")
    assert publisher.oldest(QUEUE)[0] == 0.0


# --- threads and children ---------------------------------------------------------------------------------


def test_threads_publish_side_by_side(publisher: Publisher) -> None:
    def publish(_: int) -> None:
        for _ in range(50):
            publisher.publish(released(run(), 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8)))
    assert len({arguments[0] for _, arguments in messages(publisher)}) == 400


# Warned of by Python 3.12 and later when other threads exist, as they may in a test process.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_publishes_over_connections_of_its_own(publisher: Publisher) -> None:
    publisher.publish(released(run(), 1))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                publisher.publish(released(run(), 1))
            os._exit(0 if publisher.depth(QUEUE) > 0 else 1)
        children.append(child)
    for _ in range(50):
        publisher.publish(released(run(), 1))
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len({arguments[0] for _, arguments in messages(publisher)}) == 251


def test_a_connection_that_has_answered_stays_at_hand(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish(released(run(), 1))

    def asked() -> None:
        pytest.fail("the pool was asked for a connection")

    monkeypatch.setattr(publisher._redis._pool, "get_connection", asked)
    for _ in range(3):
        publisher.publish(released(run(), 1))
    monkeypatch.undo()
    assert len(messages(publisher)) == 4


def test_a_connection_that_the_broker_has_closed_is_replaced_and_the_message_is_there(
    publisher: Publisher,
) -> None:
    publisher.publish(released(run(), 1))
    redis(publisher).client_kill_filter(_type="normal", skipme=True)
    late = run()
    publisher.publish(released(late, 1))
    assert late.hex in {arguments[0] for _, arguments in messages(publisher)}
    assert publisher.failures == 0


def test_a_closed_publisher_opens_a_connection_for_what_it_sends_then(publisher: Publisher) -> None:
    publisher.publish(released(run(), 1))
    publisher.close()
    publisher.publish(released(run(), 1))
    assert len(messages(publisher)) == 2
