"""Groups a transaction's outbox into messages (pure).

Task runs of one run that share attempt, task, queue, priority and joins go out in chunks, several to a
message, because a message may cost more than the work it starts. The chunks of a wide fan-out, or of a map,
are the parts of its chord.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave.orchestrator.domain.outbox import (
    UNCOUNTED,
    Chord,
    ChordPart,
    InvalidChord,
    JoinCheck,
    Outgoing,
    PutBack,
    Released,
)
from pipeweave.orchestrator.domain.queue_names import is_dispatch, is_parking

# Enough messages to keep every worker of a large deployment busy, few enough that each carries real work.
MESSAGES_PER_FAN_OUT = 64
MAX_CHUNK = 100
# Calls that take no longer than this (s) cost less than the message that brings them. They travel in fewer
# messages, each with so many that it is worth its way, and still in enough for the workers of most
# deployments.
SHORT_S = 0.002
SHORT_CHUNK = 50
MESSAGES_OF_SHORT_CALLS = 16
# No statement names more rows: beyond store/statements.MANY_NAMES it would look at the whole run.
MAX_SHORT_CHUNK = 200
# Task runs of an `async def` task share a message, because its worker calls them together; from this attempt
# on each has its own. Should one of them end its process each time, it takes no other with it for good.
ALONE_FROM_ATTEMPT = 3
# A message should take its worker at most this long (s): its task runs wait for that worker, even while other
# workers are free.
CHUNK_S = 0.5


class RunMessage(NamedTuple):
    """A message that runs these task runs, all of one task. `part` is its index in the chords of `joins`, or
    UNCOUNTED.
    """

    run_id: UUID
    ordinals: tuple[int, ...]
    attempt: int
    queue: str
    priority: int
    part: int = UNCOUNTED
    joins: tuple[int, ...] = ()
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Everything one transaction sends, in the order in which it must leave: sizes first, parts last."""

    chord_sizes: dict[tuple[UUID, int], int]
    messages: tuple[RunMessage, ...]
    put_back: tuple[PutBack, ...]
    checks: tuple[JoinCheck, ...]
    invalid_chords: tuple[InvalidChord, ...]
    parts: tuple[ChordPart, ...]


def group_into_messages(outbox: Sequence[Outgoing]) -> MessageBatch:
    """Group an outbox into messages, chord sizes, checks and parts; equal checks are sent once."""
    by_kind: dict[type, list[Any]] = {}
    for each in outbox:
        by_kind.setdefault(type(each), []).append(each)
    # What waits in a parking queue gets its message when a worker can call it.
    released = by_kind.get(Released, [])
    parking = {queue for queue in {each.queue for each in released} if is_parking(queue)}
    if parking:
        released = [each for each in released if each.queue not in parking]
    messages = tuple(_messages(released))
    sizes = {(each.run_id, each.join): each.members for each in by_kind.get(Chord, ())}
    for message in messages:
        for join in message.joins:
            sizes[message.run_id, join] = sizes.get((message.run_id, join), 0) + 1
    return MessageBatch(
        sizes,
        messages,
        tuple(by_kind.get(PutBack, ())),
        tuple(dict.fromkeys(by_kind.get(JoinCheck, ()))),
        tuple(dict.fromkeys(by_kind.get(InvalidChord, ()))),
        tuple(by_kind.get(ChordPart, ())),
    )


def _messages(released: Iterable[Released]) -> Iterable[RunMessage]:
    # The number of a run's id: to hash an id is a call.
    groups: dict[tuple[int, int, str, str, int, tuple[int, ...], bool], list[Released]] = defaultdict(list)
    for each in released:
        joins = () if not each.joins or each.is_limited or is_dispatch(each.queue) else each.joins
        key = (each.run_id.int, each.attempt, each.task_id, each.queue, each.priority, joins, each.is_limited)
        groups[key].append(each)
    index = 0
    for (_, attempt, task_id, queue, priority, joins, is_limited), members in groups.items():
        for chunk in _chunks(members, attempt, is_limited=is_limited):
            part = index if joins else UNCOUNTED
            yield RunMessage(members[0].run_id, chunk, attempt, queue, priority, part, joins, task_id)
            index += 1


def _ordinals(released: Iterable[Released]) -> list[int]:
    return [ordinal for each in released for ordinal in each.ordinals]


def chunk_size(count: int, seconds: float | None = None) -> int:
    """How many task runs travel in one message, 1 to MAX_CHUNK; of short calls to MAX_SHORT_CHUNK.

    Args:
        count: task runs that are ready together.
        seconds: how long one of them usually takes (s), if known; a message then takes about CHUNK_S at most.
    """
    spread = count // MESSAGES_PER_FAN_OUT
    if seconds is not None and seconds <= SHORT_S:
        worth = min(SHORT_CHUNK, count // MESSAGES_OF_SHORT_CALLS)
        return max(1, min(MAX_SHORT_CHUNK, max(spread, worth)))
    most = MAX_CHUNK
    if seconds is not None and seconds * MAX_CHUNK > CHUNK_S:
        most = int(CHUNK_S / seconds)
    return max(1, min(most, spread))


def _size(members: Sequence[Released], count: int, attempt: int, *, is_limited: bool) -> int:
    together = max(each.together for each in members)
    if together > 1 and attempt < ALONE_FROM_ATTEMPT:
        return together
    # A task run of a limited task takes up its limit while it waits in a message: it gets its own message.
    return 1 if is_limited else chunk_size(count, _seconds(members))


def _seconds(released: Iterable[Released]) -> float | None:
    return max((each.seconds for each in released if each.seconds is not None), default=None)


def _chunks(members: Sequence[Released], attempt: int, *, is_limited: bool) -> Sequence[tuple[int, ...]]:
    if len(members) == 1 and members[0].count == 1:
        return ((members[0].ordinal,),)
    ordinals = _ordinals(members)
    size = _size(members, len(ordinals), attempt, is_limited=is_limited)
    return [tuple(ordinals[start : start + size]) for start in range(0, len(ordinals), size)]
