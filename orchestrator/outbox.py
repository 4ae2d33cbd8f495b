"""What a transaction sends once it is durable. Messages carry ids and an attempt number, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
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


Outgoing = Released | Chord | Part | JoinCheck
