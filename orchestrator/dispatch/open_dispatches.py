"""The dispatches of one process whose attempts have not reported to it yet.

Most attempts of a chain report within milliseconds. So it is noted a moment later that a service has taken a
dispatch, and not at all if the report has come. Until then the attempt is a claim of this process, and lost
if that dies. And a report that comes to the process that has dispatched need not read the row of its
attempt: the guards of what it stores are in the statement.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Dispatched, TaskRun

# A claim whose dispatch has no answer for so long (s) needs heartbeats.
BEAT_AFTER_S = 1.0
# It is noted so long (s) after the answer that a service has taken a dispatch.
NOTE_AFTER_S = 0.2
# While PostgreSQL is away it is tried for so long (s): long before that the attempt counts as lost.
NOTE_WITHIN_S = 60.0
# Dispatches that are remembered; a report of an older one reads its row.
MOST_OPEN = 4_000

Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class _OpenDispatch:
    run: RunHeader
    task_run: TaskRun


@dataclass(frozen=True, slots=True)
class TakenNote:
    """A dispatch that a service has taken, which is to be noted.

    Args:
        at: not before (s, monotonic clock).
        until: not after.
    """

    dispatched: Dispatched
    at: float
    until: float


class OpenDispatches:
    """Several threads may use it.

    Args:
        promotions: how many promotions of PostgreSQL this process has noticed. After another one the rows are
            the truth again.
    """

    def __init__(self, promotions: Callable[[], int]) -> None:
        self._promotions = promotions
        self._as_of = promotions()
        self._open: OrderedDict[Key, _OpenDispatch] = OrderedDict()
        # With the time from when on it needs a heartbeat (s, monotonic clock).
        self._under_way: dict[Key, tuple[float, TaskRun]] = {}
        self._to_note: dict[Key, TakenNote] = {}
        self._lock = threading.Lock()

    def begin(self, run: RunHeader, task_run: TaskRun) -> None:
        """Remember an attempt that this process has claimed, before its dispatch leaves."""
        with self._lock:
            self._forget_after_promotion()
            self._open[_key(task_run)] = _OpenDispatch(run, task_run)
            self._under_way[_key(task_run)] = (time.monotonic() + BEAT_AFTER_S, task_run)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)

    def taken(self, dispatched: Dispatched) -> None:
        """A service has taken the dispatch of an attempt; it is to be noted, unless its report has come."""
        key = _key(dispatched.task_run)
        with self._lock:
            if self._under_way.pop(key, None) is not None:
                now = time.monotonic()
                self._to_note[key] = TakenNote(dispatched, now + NOTE_AFTER_S, now + NOTE_WITHIN_S)

    def find(self, task_run_id: UUID, attempt: int) -> tuple[RunHeader, TaskRun] | None:
        """The run and the task run of an attempt that this process has dispatched."""
        with self._lock:
            self._forget_after_promotion()
            mine = self._open.get((task_run_id, attempt))
        return None if mine is None else (mine.run, mine.task_run)

    def end(self, task_run_id: UUID, attempt: int) -> None:
        """The attempt is over, or the row says more of it than this process knows."""
        with self._lock:
            key = (task_run_id, attempt)
            self._open.pop(key, None)
            self._under_way.pop(key, None)
            self._to_note.pop(key, None)

    def silent(self) -> list[TaskRun]:
        """Claims whose dispatches have no answer for a while: nothing else shows that this process lives."""
        now = time.monotonic()
        with self._lock:
            return [each for at, each in self._under_way.values() if at <= now]

    def take_due(self, *, all_of_them: bool = False) -> list[TakenNote]:
        """What is to be noted now."""
        now = time.monotonic()
        with self._lock:
            due = [key for key, each in self._to_note.items() if all_of_them or each.at <= now]
            return [self._to_note.pop(key) for key in due]

    def put_back(self, note: TakenNote) -> None:
        """It could not be noted: try it again, unless that makes no sense any more."""
        again = replace(note, at=time.monotonic() + NOTE_AFTER_S)
        if again.at < note.until:
            with self._lock:
                self._to_note[_key(note.dispatched.task_run)] = again

    @property
    def has_notes(self) -> bool:
        """Whether something is to be noted, now or soon."""
        return bool(self._to_note)

    def _forget_after_promotion(self) -> None:
        # What is to be noted stays: the guard tells whether the attempt is still this process's.
        if (now := self._promotions()) != self._as_of:
            self._as_of = now
            self._open.clear()


def _key(task_run: TaskRun) -> Key:
    return task_run.id, task_run.attempt
