"""Notes which dispatches of a process services have taken, a moment later, and cuts late requests.

While a service lets a dispatch wait, it sends heartbeats for the claim, at the pace of a worker's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.dispatch.open_dispatches import OpenDispatches, TakenNote
from pipeweave.orchestrator.registry.worker_processes import BEAT_EVERY
from pipeweave.orchestrator.state import dispatches, heartbeats
from pipeweave.orchestrator.store.database import Database

log = logging.getLogger(__name__)

# How often it looks while something is under way (s).
LOOK_S = 0.25


class NoteKeeper:
    """The thread beside the dispatches of a process; it lives while one is under way or to be noted.

    Args:
        worker: the name of the claims of this process.
        end_late: cuts the requests whose time is up.
        is_idle: whether no dispatch is under way.
    """

    def __init__(
        self,
        database: Database,
        opened: OpenDispatches,
        worker: str,
        end_late: Callable[[], None],
        is_idle: Callable[[], bool],
    ) -> None:
        self._database = database
        self._open = opened
        self._worker = worker
        self._next_beat = 0.0
        self._end_late = end_late
        self._is_idle = is_idle
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def keep(self) -> None:
        """Have the thread look until nothing is under way."""
        with self._lock:
            if self._thread is not None:
                return
            # No daemon: the process does not end before the notes are written.
            thread = threading.Thread(target=self._look, name="next-steps")
            with suppress(RuntimeError):  # the process ends just now
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """The process is about to end: note what there is, and do not wait for reports."""
        self._is_stopped = True

    def store(self, *, all_of_them: bool = False) -> None:
        """Note the dispatches that were taken a moment ago and whose reports have not come."""
        by_run: dict[UUID, list[TakenNote]] = {}
        for each in self._open.take_due(all_of_them=all_of_them):
            by_run.setdefault(each.dispatched.task_run.run_id, []).append(each)
        for mine in by_run.values():
            taken = [each.dispatched for each in mine]
            try:
                self._database.run(lambda tx, taken=taken: dispatches.taken(tx, taken), is_one=False)  # type: ignore[misc]
            except PipeWeaveError as error:
                log.warning("next_step.not_noted", extra={"reason": error.detail})
                for each in mine:
                    self._open.put_back(each)
            except Exception:
                # Those of other runs are noted all the same; the tick ends an attempt without a note.
                log.exception(
                    "next_step.note_failed", extra={"run_id": str(mine[0].dispatched.task_run.run_id)}
                )

    def beat(self) -> None:
        """Send the heartbeats of claims whose dispatches have no answer yet, if it is time to."""
        now = time.monotonic()
        if now < self._next_beat or not (mine := self._open.silent()):
            return
        # Also after one that fails: while PostgreSQL is away, this looks many times a second.
        self._next_beat = now + BEAT_EVERY.total_seconds()
        try:
            self._database.run(lambda tx: heartbeats.beat_claims(tx, mine, self._worker), is_one=False)
        except PipeWeaveError as error:
            log.warning("next_step.no_heartbeat", extra={"reason": error.detail})
        except Exception:
            log.exception("next_step.heartbeat_failed")

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_S)
            self._end_late()
            self.beat()
            self.store(all_of_them=self._is_stopped)
            with self._lock:
                if self._is_idle() and (self._is_stopped or not self._open.has_notes):
                    self._thread = None
                    break
