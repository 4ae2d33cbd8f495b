"""Watches the child processes of a worker, from their parent.

The parent sees at once that a child died: it ends the child's attempt and hands over the task runs that the
child had claimed and not begun. It kills a child whose call goes on far beyond its time limit, or whose
attempt was taken away, because its function caught the alarm or never saw it.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain import Failure, failure
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.store import Database
from pipeweave.workers.consumer.child_slots import KillReason, Slot, Slots, SlotState
from pipeweave.workers.process import child_exits

log = logging.getLogger(__name__)

# A dead child whose end could not be stored, because PostgreSQL is away, is tried again after so long (s).
TRY_AGAIN_S = 1.0


class Children:
    """Watches the processes that have a slot.

    Args:
        max_retry_delay_ms: no retry of a child's attempt waits for longer (ms); None for no such limit.
    """

    def __init__(self, database: Database, slots: Slots, *, max_retry_delay_ms: int | None) -> None:
        self.database = database
        self.max_retry_delay_ms = max_retry_delay_ms
        self.slots = slots
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, int] = {}
        # Dead children whose end is not stored yet. Waiting for them would return at once, again and again.
        self._unburied: set[int] = set()

    def wait(self, seconds: float) -> None:
        """Wait until a child ends, for at most so many seconds."""
        for slot in self.slots.taken():
            self._watch(slot.pid)
        if self._unburied:
            seconds = min(seconds, TRY_AGAIN_S)
        if not self._watched:
            time.sleep(seconds)
            return
        self._notice_ends(seconds)

    def _notice_ends(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            self._forget(key.data)

    def look(self, worker_id: str) -> None:
        """End calls that took too long, and the attempts of children that died.

        A child whose end cannot be stored keeps no other child waiting: it is tried again with the next look.
        """
        self._notice_ends(0.0)
        for slot in self.slots.taken():
            pid = slot.pid
            try:
                self._look_at(slot, worker_id)
            except PipeWeaveError as error:
                self._unburied.add(pid)
                log.warning("child.unburied", extra={"pid": pid, "reason": error.detail})
            except Exception:
                self._unburied.add(pid)
                log.exception("child.unburied", extra={"pid": pid})
            else:
                self._unburied.discard(pid)

    def _look_at(self, slot: Slot, worker_id: str) -> None:
        seen = slot.state()
        if seen.pid not in self._watched and not _is_alive(seen.pid):
            self._bury(slot, seen, worker_id)
        elif 0 < seen.fenced_until < time.monotonic():
            self._kill(slot, KillReason.FENCED, seen.deadline)
        elif 0 < seen.deadline < time.monotonic():
            self._kill(slot, KillReason.OVERDUE, seen.deadline)

    def stop(self) -> None:
        """Kill all children that are busy: the worker cannot wait any longer."""
        for slot in self.slots.taken():
            if slot.state().is_busy:
                self._kill(slot, KillReason.STOPPED)

    @staticmethod
    def _kill(slot: Slot, ending: KillReason, deadline: float = 0.0) -> None:
        """Kill a child for the call with this deadline, unless that call has returned; 0 for any call."""
        pid = slot.pid
        if not slot.condemn(ending, deadline):
            return
        log.warning("child.killed", extra={"pid": pid, "reason": ending.name.lower()})
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _bury(self, slot: Slot, seen: SlotState, worker_id: str) -> None:
        doing = slot.activity(worker_id)
        reason = child_exits.describe(seen.pid)
        count = losses.of_child(
            self.database,
            doing,
            _failure(seen, reason),
            max_retry_delay_ms=self.max_retry_delay_ms,
            of_others=_failure_of_others(seen),
        )
        if count:
            slot.count(count, count, 0.0)
            log.warning("child.lost", extra={"pid": seen.pid, "attempts": count, "reason": reason})
        slot.free()

    def _watch(self, pid: int) -> None:
        if pid in self._watched or pid in self._unburied or not hasattr(os, "pidfd_open"):
            return
        try:
            self._watched[pid] = os.pidfd_open(pid)
        except OSError:
            return  # the child is dead already; `look` finds it
        self._selector.register(self._watched[pid], selectors.EVENT_READ, pid)

    def _forget(self, pid: int) -> None:
        handle = self._watched.pop(pid)
        self._selector.unregister(handle)
        os.close(handle)


def _failure(seen: SlotState, reason: str) -> Failure:
    match seen.ending:
        case KillReason.OVERDUE:
            return failure.overdue(seen.limit)
        case KillReason.STOPPED:
            return failure.interrupted()
        case KillReason.FENCED:
            return failure.lost(f"its process ({seen.pid}) was ended, because the attempt was taken away")
        case KillReason.UNKNOWN:
            return failure.lost(reason)


def _failure_of_others(seen: SlotState) -> Failure | None:
    """How the calls ended that ran beside the one that took too long; None if they ended as that one."""
    if seen.ending is not KillReason.OVERDUE:
        return None
    return failure.lost(f"its process ({seen.pid}) was ended, because another call of it went on too long")


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
        if os.path.exists("/proc/self/stat"):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
