"""From an outbox to messages."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import UNCOUNTED, Chord, ChordPart, JoinCheck, Outgoing, Released
from pipeweave.orchestrator.messaging.batching import (
    ALONE_FROM_ATTEMPT,
    CHUNK_S,
    MAX_CHUNK,
    MAX_SHORT_CHUNK,
    MESSAGES_OF_SHORT_CALLS,
    MESSAGES_PER_FAN_OUT,
    SHORT_S,
    chunk_size,
    group_into_messages,
)
from pipeweave.orchestrator.store.statements import MANY_NAMES

RUN = ids.new_id()


def released(
    ordinal: int,
    *,
    task: str = "t",
    queue: str = "q",
    priority: int = 100,
    attempt: int = 1,
    joins: tuple[int, ...] = (),
    is_limited: bool = False,
    seconds: float | None = None,
    together: int = 1,
) -> Released:
    return Released(RUN, ordinal, attempt, task, queue, priority, joins, is_limited, seconds, together)


def test_an_empty_outbox_posts_nothing() -> None:
    batch = group_into_messages([])
    assert (batch.messages, batch.checks, batch.parts, batch.chord_sizes) == ((), (), (), {})


@pytest.mark.parametrize(
    ("count", "size"),
    [(1, 1), (8, 1), (64, 1), (127, 1), (128, 2), (1_000, 15), (6_400, 100), (10_000, 100), (100_000, 100)],
)
def test_chunks_grow_with_the_fan_out_up_to_a_limit(count: int, size: int) -> None:
    assert chunk_size(count) == size


@given(st.integers(0, 3_000))
def test_every_task_run_travels_in_exactly_one_message(count: int) -> None:
    batch = group_into_messages([released(ordinal) for ordinal in range(1, count + 1)])
    sent = list(chain.from_iterable(message.ordinals for message in batch.messages))
    assert sorted(sent) == list(range(1, count + 1))
    assert all(1 <= len(message.ordinals) <= MAX_CHUNK for message in batch.messages)
    assert len(batch.messages) <= max(2 * MESSAGES_PER_FAN_OUT, count / MAX_CHUNK + 1)


@pytest.mark.parametrize(
    ("count", "seconds", "size"),
    [
        (1_000, 0.1, 5),
        (1_000, 0.5, 1),
        (1_000, 60.0, 1),
        (1_000, 0.003, 15),
        (10_000, 0.003, 100),
        (10_000, 0.01, 50),
    ],
)
def test_chunks_of_slow_tasks_are_small(count: int, seconds: float, size: int) -> None:
    assert chunk_size(count, seconds) == size


@pytest.mark.parametrize(
    ("count", "seconds", "size"),
    [
        (10, 0.0001, 1),
        (64, SHORT_S, 4),
        (320, 0.001, 20),
        (1_000, 0.001, 50),
        (1_000, 0.0, 50),
        (10_000, 0.001, 156),
        (100_000, 0.001, 200),
    ],
)
def test_chunks_of_short_calls_are_large(count: int, seconds: float, size: int) -> None:
    assert chunk_size(count, seconds) == size


@given(st.integers(64, 200_000), st.floats(0, SHORT_S))
def test_short_calls_reach_as_many_workers_as_there_may_be(count: int, seconds: float) -> None:
    size = chunk_size(count, seconds)
    assert chunk_size(count) <= size <= MAX_SHORT_CHUNK <= MANY_NAMES
    assert count / size >= MESSAGES_OF_SHORT_CALLS
    assert size * seconds <= CHUNK_S


@given(st.integers(0, 20_000), st.none() | st.floats(SHORT_S, exclude_min=True, allow_nan=False))
def test_a_duration_that_is_not_short_makes_more_messages_but_never_fewer(
    count: int, seconds: float | None
) -> None:
    size = chunk_size(count, seconds)
    assert 1 <= size <= chunk_size(count) <= MAX_CHUNK
    assert seconds is None or size == 1 or size * seconds <= CHUNK_S


@given(st.lists(st.none() | st.floats(0, 1), max_size=1_500))
def test_task_runs_of_any_pace_travel_in_exactly_one_message(paces: list[float | None]) -> None:
    messages = group_into_messages(
        [released(number, seconds=pace) for number, pace in enumerate(paces, 1)]
    ).messages
    sent = list(chain.from_iterable(message.ordinals for message in messages))
    assert sorted(sent) == list(range(1, len(paces) + 1))
    slowest = max((pace for pace in paces if pace is not None), default=0)
    sizes = [len(message.ordinals) for message in messages]
    assert all(size == 1 or size * slowest <= CHUNK_S for size in sizes)


@pytest.mark.parametrize("is_limited", [False, True])
def test_calls_that_run_together_share_a_message_whatever_they_take(is_limited: bool) -> None:
    many = [released(each, seconds=9.0, together=50, is_limited=is_limited) for each in range(1, 121)]
    assert [len(each.ordinals) for each in group_into_messages(many).messages] == [50, 50, 20]


@pytest.mark.parametrize(("attempt", "size"), [(1, 2), (2, 2), (ALONE_FROM_ATTEMPT, 1)])
def test_a_call_that_was_lost_again_and_again_has_its_own_message(attempt: int, size: int) -> None:
    pair = [released(each, attempt=attempt, together=9) for each in (1, 2)]
    assert {len(each.ordinals) for each in group_into_messages(pair).messages} == {size}


@pytest.mark.parametrize(
    "other",
    [
        released(2, task="u"),
        released(2, queue="r"),
        released(2, priority=1),
        released(2, attempt=2),
        released(2, joins=(9,)),
    ],
    ids=["task", "queue", "priority", "attempt", "join"],
)
def test_task_runs_that_differ_travel_in_different_messages(other: Released) -> None:
    many = [released(ordinal) for ordinal in range(10, 300)]
    messages = group_into_messages([*many, other]).messages
    assert [message.ordinals for message in messages if 2 in message.ordinals] == [(2,)]


def test_task_runs_of_different_runs_travel_apart() -> None:
    other = ids.new_id()
    mixed: list[Outgoing] = [
        Released(run, number, 1, "t", "q", 100) for number in range(1, 300) for run in (RUN, other)
    ]
    assert {message.run_id for message in group_into_messages(mixed).messages} == {RUN, other}
    assert sum(len(message.ordinals) for message in group_into_messages(mixed).messages) == 598


def test_a_limited_task_run_gets_a_message_of_its_own_and_counts_for_itself() -> None:
    batch = group_into_messages([released(number, joins=(9,), is_limited=True) for number in range(1, 301)])
    assert [len(message.ordinals) for message in batch.messages] == [1] * 300
    assert {(message.part, message.joins) for message in batch.messages} == {(UNCOUNTED, ())}
    assert batch.chord_sizes == {}


def test_messages_of_a_fan_out_are_the_parts_of_its_chord() -> None:
    outbox: list[Outgoing] = [Chord(RUN, 900, 3), *(released(n, joins=(900,)) for n in range(1, 257))]
    batch = group_into_messages(outbox)
    assert batch.chord_sizes == {(RUN, 900): len(batch.messages) + 3}
    parts = [message.part for message in batch.messages]
    assert len(set(parts)) == len(parts)
    assert UNCOUNTED not in parts


def test_a_message_counts_for_every_join_of_its_task_runs() -> None:
    outbox: list[Outgoing] = [Chord(RUN, 8, 0), Chord(RUN, 9, 1), released(1, joins=(8, 9))]
    assert group_into_messages(outbox).chord_sizes == {(RUN, 8): 1, (RUN, 9): 2}


def test_checks_are_sent_once_and_parts_as_they_are() -> None:
    check, part = JoinCheck(RUN, 4, "q"), ChordPart(RUN, 5, "q", ordinal=2)
    batch = group_into_messages([check, part, check, part])
    assert batch.checks == (check,)
    assert batch.parts == (part, part)


def test_a_part_has_the_same_id_however_often_it_is_counted() -> None:
    assert ChordPart(RUN, 5, "q", ordinal=2).id == ChordPart(RUN, 5, "r", ordinal=2).id
    assert ChordPart(RUN, 5, "q", ordinal=2).id != ChordPart(RUN, 5, "q", message=2).id


def test_the_messages_of_a_chunk_name_its_task() -> None:
    batch = group_into_messages([released(number, task="charge") for number in range(1, 300)])
    assert {each.task_id for each in batch.messages} == {"charge"}
