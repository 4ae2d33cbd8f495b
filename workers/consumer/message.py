"""Holds the message under way in a child process, which its main thread and the watchdog's thread share."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pipeweave.orchestrator.domain import (
    END,
    UNCOUNTED,
    CallOutcome,
    Completion,
    KeyWait,
    PutBack,
    RunHeader,
    TaskRun,
    task_run_of,
)
from pipeweave.orchestrator.engine import Unstarted

# At most this many next task runs of a message are compared with the priorities of other messages.
MOST_LOOKED_AT = 16

# A message holds its worker for about this long (s); then its remaining task runs go to other workers.
MESSAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was sent: it names task runs of one run, and the joins whose chords it is a part of."""

    run_id: UUID
    ordinals: Sequence[int]
    attempt: int
    part: int
    joins: Sequence[int]
    queue: str

    def put_back(self, priority: int, since: datetime, task_id: str) -> PutBack:
        """The outbox entry that sends it again; see `PutBack`."""
        ordinals, joins = tuple(self.ordinals), tuple(self.joins)
        return PutBack(
            self.run_id, ordinals, self.attempt, self.queue, priority, self.part, joins, since, task_id
        )


@dataclass(slots=True)
class Work:
    """A message under way.

    Args:
        run: the run of its task runs.
        attempt: the attempt that the message names.
        left: ordinals that the message names and that are not claimed yet.
        part: which part of its chords the message is; UNCOUNTED for none.
        joins: the joins of those chords.
        claimed: task runs that are claimed and not begun.
        outcomes: how calls ended; they wait to be stored.
        is_calling: whether a function is being called.
        is_in_doubt: whether PostgreSQL did not answer, so that something may be stored all the same.
        async_task: the async task whose calls have begun; the message names task runs of it.
        queue: where the message was; None for the worker's first queue.
        began: when work on the message began (s, monotonic clock).
    """

    run: RunHeader
    attempt: int = 1
    left: deque[int] = field(default_factory=deque)
    part: int = UNCOUNTED
    joins: tuple[int, ...] = ()
    claimed: deque[TaskRun] = field(default_factory=deque)
    outcomes: list[CallOutcome] = field(default_factory=list)
    is_calling: bool = False
    is_in_doubt: bool = False
    async_task: str | None = None
    queue: str | None = None
    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_long(self) -> bool:
        return time.monotonic() - self.began > MESSAGE_S

    def mark_in_doubt(self) -> None:
        """Note that PostgreSQL did not answer: a turn may be durable, or not."""
        self.is_in_doubt = True

    def next(self) -> TaskRun | None:
        """Take the task run to call next; from now on it is begun. None when nothing is claimed."""
        with self.lock:
            self.is_calling = bool(self.claimed)
            return self.claimed.popleft() if self.claimed else None

    def next_async(self, may_begin: Callable[[TaskRun], bool]) -> TaskRun | None:
        """Take the first claimed task run that may begin beside those under way; None when there is none."""
        with self.lock:
            for each in self.claimed:
                if may_begin(each):
                    self.claimed.remove(each)
                    self.async_task = self.async_task or each.task_id
                    return each
            return None

    def next_dispatches(self, first: TaskRun, most: int) -> list[TaskRun]:
        """Take the claimed task runs that are dispatched together with the one that `next` gave.

        Args:
            most: how many there may be, the first included.
        """
        with self.lock:
            together = [first]
            while self.claimed and len(together) < most:
                each = self.claimed[0]
                if not each.is_dispatched or each.task_id != first.task_id:
                    break
                together.append(self.claimed.popleft())
            return together

    def record(self, outcome: CallOutcome) -> None:
        """Keep the outcome of a call until it is stored."""
        with self.lock:
            self.is_calling = False
            self.outcomes.append(outcome)

    def next_ordinals(self, outcomes: Sequence[CallOutcome]) -> list[int]:
        """The first ordinals that this process would continue with after these outcomes."""
        plan = self.run.plan
        ordinals = [each.ordinal for each in self.claimed] + list(self.left)
        for each in outcomes:
            task_run = task_run_of(each)
            if task_run.map_parent is None:
                ordinals += plan.successors(task_run.ordinal)
        return [each for each in ordinals[:MOST_LOOKED_AT] if each != END]

    def requeues(self, task_run: TaskRun, outcome: CallOutcome) -> bool:
        """True if the holder of a task run's key completed in this same turn. The task run is then put back
        into `claimed`, its outcome is dropped, and it completes from the stored result.
        """
        if not isinstance(outcome, KeyWait):
            return False
        with self.lock:
            done = (each.task_run.id for each in self.outcomes if isinstance(each, Completion))
            if outcome.holder not in done:
                return False
            self.is_calling = False
            self.claimed.appendleft(task_run)
            return True

    def ended(self) -> list[CallOutcome]:
        """Take the outcomes that wait to be stored."""
        with self.lock:
            return self._ended()

    def take(self) -> Unstarted:
        """Take all task runs that are not begun."""
        with self.lock:
            return self._unstarted()

    def take_during_call(self) -> tuple[list[CallOutcome], Unstarted] | None:
        """Take outcomes and remaining task runs from the watchdog's thread. None unless a call is under way,
        because between calls the main thread owns them.
        """
        with self.lock:
            return (self._ended(), self._unstarted()) if self.is_calling else None

    def _ended(self) -> list[CallOutcome]:
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def _unstarted(self) -> Unstarted:
        unstarted = Unstarted(list(self.claimed), list(self.left), self.attempt)
        self.claimed.clear()
        self.left.clear()
        return unstarted
