"""Defines the entries of the outbox, which a transaction sends after its commit.

A message carries ids and an attempt number, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

# The part number of a message that no chord counts: a repeated attempt, or the rest that a long message
# handed over. When its task runs end, their joins are checked in PostgreSQL instead (JoinCheck).
UNCOUNTED = -1


@dataclass(frozen=True, slots=True)
class Released:
    """A task run that became `queued` in this transaction, on its way to a message; or several alike."""

    run_id: UUID
    ordinal: int
    attempt: int
    task_id: str
    queue: str
    priority: int
    # Its map, or its gathered joins: its message is a part of their chords.
    joins: tuple[int, ...] = ()
    is_limited: bool = False
    # How long a run of its task usually takes (s); None while unknown.
    seconds: float | None = None
    # How many of its task share a message, because a worker's child calls them together.
    together: int = 1
    # It stands for so many: those with the ordinals behind it are like it. The items of a map are one entry.
    count: int = 1

    @property
    def ordinals(self) -> range:
        """The ordinals of all that it stands for."""
        return range(self.ordinal, self.ordinal + self.count)


@dataclass(frozen=True, slots=True)
class Chord:
    """The chord of a join. `members` is the number of predecessors that count on their own; messages are
    added when they are made.
    """

    run_id: UUID
    join: int
    members: int


@dataclass(frozen=True, slots=True)
class ChordPart:
    """A finished part of a chord: a message (`message` is its index) or a predecessor (`ordinal`)."""

    run_id: UUID
    join: int
    queue: str
    ordinal: int | None = None
    message: int | None = None

    @property
    def id(self) -> str:
        """The constant id of the part, so that a part that is sent twice counts once (docs/celery.md)."""
        return f"p{self.ordinal}" if self.message is None else f"m{self.message}"


@dataclass(frozen=True, slots=True)
class JoinCheck:
    """A message that lets a worker check a step, a map or the end of the run in PostgreSQL."""

    run_id: UUID
    join: int
    queue: str


@dataclass(frozen=True, slots=True)
class InvalidChord:
    """A chord whose count is wrong, because one of its messages ran no task run. From now on each part sends
    a join check instead of being counted.
    """

    run_id: UUID
    join: int


@dataclass(frozen=True, slots=True)
class PutBack:
    """A message that gives way to better task runs: it is sent again unchanged, to the front of its queue.

    Args:
        since: when its task runs were queued.
        task_id: their task; None where it is not known.
    """

    run_id: UUID
    ordinals: tuple[int, ...]
    attempt: int
    queue: str
    priority: int
    part: int
    joins: tuple[int, ...]
    since: datetime
    task_id: str | None = None


Outgoing = Released | Chord | ChordPart | JoinCheck | InvalidChord | PutBack
