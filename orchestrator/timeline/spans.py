"""Defines what the time of a run is made of: spans of task runs, and the facts that they are derived from.

All times are whole microseconds since the run was created, by PostgreSQL's clock: sums of them are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class PhaseKind(StrEnum):
    """What a task run, or the whole run, did or waited for."""

    WORK = "work"  # an attempt ran that ended well, or runs still
    FAILED_WORK = "failedWork"  # an attempt ran that ended badly
    ITEMS = "items"  # a map waits for its items
    ASLEEP = "asleep"  # a step that waits for a time
    APPROVAL = "approval"  # a step that waits for people
    SIGNAL = "signal"  # a step that waits for a signal
    CHILD = "child"  # a step that waits for a run that it has started
    OUTSIDE = "outside"  # anything else that is no worker and no item of a map
    QUEUE = "queue"  # a message is out; no worker has taken it
    TASK_LIMIT = "taskLimit"  # the concurrency or the rate of its task had no room
    TENANT_LIMIT = "tenantLimit"  # the run waited for a run slot of its tenant
    PAUSE = "pause"  # its task, its run or its tenant was paused
    RETRY_DELAY = "retryDelay"  # between two attempts
    SAME_KEY = "sameKey"  # another task run with its idempotency key was executed
    PREDECESSORS = "predecessors"  # not released yet
    ENDED = "ended"  # final, until a dead letter was retried


class TimeSpan(NamedTuple):
    """A task run did one thing from `begin` to `end`."""

    kind: PhaseKind
    begin: int
    end: int
    attempt: int = 1
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that ended badly; `begin` is None if it is not known."""

    number: int
    begin: int | None
    end: int
    error_code: str | None


class PhaseChange(NamedTuple):
    """An event that says what a task run waits for from now on; `kind` is None when it became final."""

    at: int
    kind: PhaseKind | None


@dataclass(frozen=True, slots=True)
class TaskRunTimes:
    """The stored times of a task run.

    Args:
        ordinal: its place in the run.
        kind: `task`, `map` or `item`.
        is_limited: whether its task had a limit.
        queued: when it was released, or last queued.
        attempts: those that ended badly, in their order.
        map_index: of an item.
        first_item: the ordinal of a map's first item.
        items: how many items a map has.
        wait: of a step that waits, what it does then; None for any other.
        waits_for: the people or the signals that the pipeline names, or the pipeline that its step runs; None
            where it names none.
    """

    ordinal: int
    step_id: str
    task_id: str
    kind: str
    status: str
    attempt: int
    is_limited: bool
    created: int
    queued: int | None
    started: int | None
    finished: int | None
    error_code: str | None = None
    attempts: Sequence[EndedAttempt] = ()
    map_index: int | None = None
    first_item: int | None = None
    items: int | None = None
    wait: PhaseKind | None = None
    waits_for: str | None = None

    @property
    def was_handed_on(self) -> bool:
        """Whether another run takes or took care of its error: no attempt followed the last, nor an end."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.number < self.attempt:
            return False
        return self.finished is None or self.finished > last.end

    @property
    def has_runs_inside(self) -> bool:
        """Whether it waited for runs that it, or its error, has started."""
        return self.wait is PhaseKind.CHILD or self.was_handed_on


@dataclass(frozen=True, slots=True)
class Interval:
    """From `begin` to `end`."""

    begin: int
    end: int


class PathPart(NamedTuple):
    """A span of the critical path, and the task run that it belongs to.

    Args:
        times: None for what the run itself waited for, its ending as well.
        inner: of what a child run did meanwhile, the task run of the child; `times` is then the one that
            waited for the child.
    """

    span: TimeSpan
    times: TaskRunTimes | None = None
    inner: TaskRunTimes | None = None

    @property
    def length(self) -> int:
        return self.span.end - self.span.begin


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The times of a run.

    Args:
        started: when it was admitted; None if it never was.
        end: when it ended; for an open run, now.
        is_open: whether it goes on.
        steps: its steps by ordinal.
        predecessors: the ordinals that a step waits for.
        changes: by ordinal, in their order.
        pauses: when the whole run was paused.
        overs: when the run was final and was reopened afterwards.
        last_items: of maps on the critical path, by the map's ordinal, the item that ended last.
        inside: by the ordinal of a step, or an item, that waited for child runs: what those did, in order;
            under END what those of its ending did.
        has_ending: whether what follows its last step is its ending.
    """

    started: int | None
    end: int
    is_open: bool
    steps: Mapping[int, TaskRunTimes]
    predecessors: Mapping[int, Sequence[int]]
    changes: Mapping[int, Sequence[PhaseChange]] = field(default_factory=dict)
    pauses: Sequence[Interval] = ()
    overs: Sequence[Interval] = ()
    last_items: Mapping[int, TaskRunTimes] = field(default_factory=dict)
    inside: Mapping[int, Sequence[PathPart]] = field(default_factory=dict)
    has_ending: bool = False
