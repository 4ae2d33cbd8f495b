"""The attempts under way in an HTTP worker: takes dispatches, sends heartbeats, keeps time limits, drains."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pipeweave.authoring import Task
from pipeweave.errors import TaskError
from pipeweave.http_worker.attempt import AttemptUnderWay, Equipment
from pipeweave.http_worker.dispatch import Dispatch

log = logging.getLogger(__name__)

# A heartbeat is sent so many times per interval: one may be lost.
BEATS_PER_INTERVAL = 2
SHORTEST_BEAT_S = 0.05
# Ids of attempts that have ended are remembered, so that a dispatch that comes twice is executed once.
REMEMBERED = 10_000


class Taken(Enum):
    """What became of a dispatch."""

    TAKEN = "taken"
    # Taken before: it is under way, or has ended.
    AGAIN = "again"
    FULL = "full"
    DRAINING = "draining"


class _Watched:
    """When the next heartbeat of an attempt is due, and its end."""

    __slots__ = ("attempt", "beat_at", "deadline", "every_s", "is_beating")

    def __init__(self, attempt: AttemptUnderWay) -> None:
        dispatch, now = attempt.dispatch, time.monotonic()
        self.attempt = attempt
        self.every_s = max(dispatch.heartbeat_s / BEATS_PER_INTERVAL, SHORTEST_BEAT_S)
        self.beat_at = now + self.every_s
        self.deadline = now + dispatch.timeout_s if dispatch.timeout_s is not None else None
        self.is_beating = False

    @property
    def due_at(self) -> float:
        return self.beat_at if self.deadline is None else min(self.beat_at, self.deadline)


class UnderWay:
    """The attempts under way.

    Args:
        capacity: how many may be under way at once.
    """

    def __init__(self, tasks: Mapping[str, Task[..., Any]], capacity: int, equipment: Equipment) -> None:
        self.capacity = capacity
        self._tasks = tasks
        self._equipment = equipment
        self._watched: dict[str, _Watched] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._changed = threading.Condition()
        self._wakes_at = 0.0
        self._is_draining = False
        self._has_stopped = False
        self._clock = threading.Thread(target=self._watch, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to send heartbeats and to keep time limits."""
        self._clock.start()

    @property
    def count(self) -> int:
        """How many attempts are under way."""
        return len(self._watched)

    @property
    def is_draining(self) -> bool:
        """Whether no dispatch is taken any more."""
        return self._is_draining

    def take(self, task_id: str, dispatch: Dispatch) -> Taken:
        """Start an attempt in a thread of its own, if there is room and it was not started before."""
        with self._changed:
            if dispatch.run_id in self._watched or dispatch.run_id in self._ended:
                return Taken.AGAIN
            if self._is_draining:
                return Taken.DRAINING
            if len(self._watched) >= self.capacity:
                return Taken.FULL
            attempt = AttemptUnderWay(self._tasks[task_id], dispatch, self._equipment)
            watched = self._watched[dispatch.run_id] = _Watched(attempt)
            if watched.due_at < self._wakes_at:
                self._changed.notify_all()
        threading.Thread(target=self._run, args=(attempt,), name=f"task {task_id}", daemon=True).start()
        return Taken.TAKEN

    def stop_taking(self) -> None:
        """Take no more dispatches."""
        self._is_draining = True

    def drain(self, within_s: float) -> bool:
        """Wait for the attempts under way, after `stop_taking`. Those that do not end in time are
        reported as failed, so that another worker starts them at once.

        Returns:
            Whether all have ended.
        """
        with self._changed:
            has_ended = self._changed.wait_for(lambda: not self._watched, within_s)
            left = [each.attempt for each in self._watched.values()]
        if not has_ended:
            self._equipment.reports.give_up()
            _each_in_a_thread(left, "give up")
        with self._changed:
            self._has_stopped = True
            self._changed.notify_all()
        return has_ended

    def _run(self, attempt: AttemptUnderWay) -> None:
        try:
            attempt.run()
        except Exception:
            # The heartbeats stop, and the orchestrator finds the attempt silent.
            log.exception("attempt.unreported", extra=attempt.names())
        finally:
            with self._changed:
                del self._watched[attempt.run_id]
                self._ended[attempt.run_id] = None
                if len(self._ended) > REMEMBERED:
                    self._ended.popitem(last=False)
                if not self._watched:
                    self._changed.notify_all()

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [each for each in self._watched.values() if each.due_at <= now and not each.is_beating]
                waiting = [each.due_at for each in self._watched.values() if not each.is_beating]
                if not due:
                    self._wakes_at = min(waiting, default=now + 3600)
                    self._changed.wait(self._wakes_at - now)
                if self._has_stopped:
                    return
                for each in due:
                    each.is_beating = True
            for each in due:
                # In a thread: an orchestrator that is slow to answer one holds up no other.
                threading.Thread(target=self._look_at, args=(each,), name="heartbeat", daemon=True).start()

    def _look_at(self, watched: _Watched) -> None:
        if watched.deadline is not None and time.monotonic() >= watched.deadline:
            # Nobody waits for it any more: it gets no further look.
            watched.attempt.time_out()
            return
        watched.beat_at = time.monotonic() + watched.every_s
        try:
            watched.attempt.beat()
        finally:
            with self._changed:
                watched.is_beating = False
                self._changed.notify_all()


def _each_in_a_thread(attempts: list[AttemptUnderWay], name: str) -> None:
    stopped = TaskError("its worker stopped before the attempt ended", code="WORKER_STOPPED")
    threads = [
        threading.Thread(target=each.give_up, args=(stopped,), name=name, daemon=True) for each in attempts
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=10)
