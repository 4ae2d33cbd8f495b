"""What a transaction sends once it is durable. Messages carry ids and an attempt number, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

# A message whose completions nobody counts: a repeated attempt, or what a long message gave back. When its
# task runs end, it asks PostgreSQL whether the join may go (a join message) instead of counting a part.
UNCOUNTED = -1


@dataclass(frozen=True, slots=True)
class Released:
    """A task run that became `queued` in this transaction, on its way to a message."""

    run_id: UUID
    ordinal: int
    attempt: int
    task_id: str
    queue: str
    priority: int
    # Its map, or the gathered joins it is part of: messages count for these.
    joins: tuple[int, ...] = ()
    is_limited: bool = False
    # How long a run of its task usually takes (s); None while nobody knows.
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Chord:
    """A join whose parts are counted in Redis; `members` count on their own, messages are added when
    they are made.
    """

    run_id: UUID
    join: int
    members: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a chord is done: a message's (`message` is its index) or a predecessor's own (its
    ordinal).
    """

    run_id: UUID
    join: int
    queue: str
    ordinal: int | None = None
    message: int | None = None

    @property
    def id(self) -> str:
        """Constant for the part, so that counting it twice counts once (docs/celery.md)."""
        return f"p{self.ordinal}" if self.message is None else f"m{self.message}"


@dataclass(frozen=True, slots=True)
class JoinCheck:
    """Look whether this join (or map, or the end of the run) may go."""

    run_id: UUID
    join: int
    queue: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A join one of whose messages found nothing to do, and so counts for nothing: from now on, every message
    that would count as a part asks whether the join may go instead.
    """

    run_id: UUID
    join: int


@dataclass(frozen=True, slots=True)
class PutBack:
    """A message that gave way to better task runs: it waits again, in front of the others, as it was.

    Args:
        since: when what it names was queued.
    """

    run_id: UUID
    ordinals: tuple[int, ...]
    attempt: int
    queue: str
    priority: int
    part: int
    joins: tuple[int, ...]
    since: datetime


Outgoing = Released | Chord | Part | JoinCheck | Asked | PutBack
