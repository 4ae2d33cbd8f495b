"""The processes of a worker: Celery's prefork pool, with children that leave without anyone's noticing.

Celery lets a child leave by itself after its last message. Its parent does not know: it hands the next
message to a child that does not read any more, and finds out when the child has ended. Here a child that has
worked off enough messages only asks to leave, and works on. The parent starts a new child, waits until that
one is ready (everything imported, its connections open), and sends the old one away when it holds no message.

The parent also learns at once that a child ended. Celery watches a pipe, which closes a moment before the
process can be waited for; it then looked again only five seconds later.

And a child that does not get ready is killed, so that another one starts. Celery has a timer for that, but
not for the first children, and it forgets the timer when the broker is lost: the child would be missing for
ever.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import deque
from contextlib import suppress
from typing import Any

from billiard.compat import mem_rss
from billiard.pool import RUN
from celery.concurrency import prefork

from pipeweave.workers.process import child_exits
from pipeweave.workers.process.handing_out import HandingPool, QuietChild
from pipeweave.workers.process.memory_watch import MemoryWatch

log = logging.getLogger(__name__)

# What a child tells its parent, next to Celery's own numbers: that it wishes to leave.
WISHES_TO_LEAVE = 16

# A new child that ended before it was ready is started again after this long (s).
AGAIN_AFTER_S = 1.0
# Celery's timer is the first to kill a child that is not ready; ours waits so many times as long.
PATIENCE = 2
# A child that ended and cannot be waited for yet is looked at again after this long (s).
LOOK_AGAIN_S = 0.02


class Child(QuietChild):
    """A child process, which asks once to be replaced: after `maxtasks` messages, or when it takes more than
    `max_memory_per_child` KiB.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most: int | None = self.maxtasks
        self._most_kib: int | None = self.max_memory_per_child
        # Without limits of its own, the pool's child never leaves by itself.
        self.maxtasks: int | None = None
        self.max_memory_per_child: int | None = None
        self._done = 0
        self._has_asked = False

    def prepare_result(self, result: Any) -> Any:
        """Called when a message is worked off, before its end is reported."""
        self._done += 1
        if not self._has_asked and self._has_enough():
            self._has_asked = True
            self.outq.put((WISHES_TO_LEAVE, (os.getpid(),)))
        return result

    def _has_enough(self) -> bool:
        is_old = self._most is not None and self._done >= self._most
        return is_old or (self._most_kib is not None and mem_rss() > self._most_kib)


class ChildPool(HandingPool):
    """The children of a worker. One at a time is replaced; for as long there is one more than usual."""

    Worker = Child
    # Says which child takes too much memory; a worker sets it before it makes its pool.
    memory: MemoryWatch | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Children that asked to leave, the one that is being replaced first.
        self._wishing: deque[Any] = deque()
        # The new child, until it is ready.
        self._coming: Any = None
        # Children whose successors are ready: they leave when they hold no message.
        self._leaving: list[Any] = []
        self._again_at = 0.0
        # By when (s, monotonic clock) a child must be ready, or gone if it was sent away.
        self._deadlines: dict[Any, float] = {}
        super().__init__(*args, **kwargs)

    def _create_worker_process(self, i: int) -> Any:
        child = super()._create_worker_process(i)
        self._deadlines[child] = self._deadline()
        return child

    def _deadline(self) -> float:
        return time.monotonic() + PATIENCE * float(self._proc_alive_timeout)

    # --- replacing ----------------------------------------------------------------------------------------

    def create_result_handler(self) -> Any:
        handler = super().create_result_handler()
        handler.state_handlers[WISHES_TO_LEAVE] = self._on_wish
        return handler

    def _on_wish(self, pid: int) -> None:
        chosen = {*self._wishing, *self._leaving}
        self._wishing += [child for child in self._pool if child.pid == pid and child not in chosen]
        self._start_next()

    def _start_next(self) -> None:
        """Start the successor of the child that waits longest, unless one is being started."""
        if self._coming is not None or self._state != RUN or time.monotonic() < self._again_at:
            return
        while self._wishing and self._wishing[0] not in self._pool:
            self._wishing.popleft()  # it died, and has a successor already
        if not self._wishing:
            return
        if None not in self._queues.values():
            self._queues[self.create_process_queues()] = None
        self._coming = self._create_worker_process(self._wishing[0].index)

    def on_process_alive(self, pid: int) -> None:
        super().on_process_alive(pid)
        self._deadlines = {child: by for child, by in self._deadlines.items() if child.pid != pid}
        if self.memory is not None:
            self.memory.begin(pid)
        if self._coming is not None and self._coming.pid == pid:
            self._coming = None
            self._leaving.append(self._wishing.popleft())
            self._send_away()
            self._start_next()

    def on_job_ready(self, job: Any, i: Any, obj: Any, inqW_fd: int) -> None:
        super().on_job_ready(job, i, obj, inqW_fd)
        if self._leaving:
            self._send_away()

    def _send_away(self) -> None:
        """Send those away that hold no message, and hand them none from now on."""
        for child in [each for each in self._leaving if each.inqW_fd not in self._busy_workers]:
            self._leaving.remove(child)
            if child in self._pool:
                self._all_inqueues.discard(child.inqW_fd)
                self._deadlines[child] = self._deadline()
                child.terminate_controlled()

    # --- noticing the end of a child ----------------------------------------------------------------------

    def _track_child_process(self, proc: Any, hub: Any) -> None:
        # A pidfd is readable when the process can be waited for, not earlier.
        if not hasattr(proc, "_sentinel_poll") and hasattr(os, "pidfd_open"):
            proc._sentinel_poll = os.pidfd_open(proc.pid)
        super()._track_child_process(proc, hub)

    def _event_process_exit(self, hub: Any, proc: Any) -> None:
        super()._event_process_exit(hub, proc)
        if proc in self._pool:
            hub.call_later(LOOK_AGAIN_S, self.maintain_pool)

    def _join_exited_workers(self, shutdown: bool = False) -> Any:
        before = list(self._pool)
        gone = super()._join_exited_workers(shutdown)
        for child in before:
            if child not in self._pool and child.exitcode is not None:
                child_exits.record(child.pid, child.exitcode)
        return gone

    def maintain_pool(self) -> None:
        super().maintain_pool()
        if self._coming is not None and self._coming not in self._pool:
            self._coming = None
            self._again_at = time.monotonic() + AGAIN_AFTER_S
        if self.memory is not None and (pid := self.memory.look([child.pid for child in self._pool])):
            self._on_wish(pid)
        self._start_next()
        self._kill_the_stuck()

    def _kill_the_stuck(self) -> None:
        """Kill children that did not get ready, or did not go, in time. They hold no message."""
        now = time.monotonic()
        self._deadlines = {child: by for child, by in self._deadlines.items() if child in self._pool}
        for child in [each for each, by in self._deadlines.items() if by < now]:
            log.error("child.stuck", extra={"pid": child.pid})
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


class TaskPool(prefork.TaskPool):
    """Celery's prefork pool, made of such children."""

    Pool = ChildPool
