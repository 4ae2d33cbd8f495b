"""Starts enqueued runs, and releases attempts that are due, in a thread: soon after a caller's commit or the
end of a short delay, where a tick may be a second away.

It looks at indexes that are nearly always empty. A notification by PostgreSQL would save the looks, and make
every caller's commit wait for all others (docs/decisions/0035-enqueue.md).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from pipeweave.beside import Beside
from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.store import Database, Transaction

log = logging.getLogger(__name__)

# Between two looks (s): while runs are enqueued now and then, and when none was for an hour.
EVERY_S = 0.03
SELDOM_S = 0.25
# Between two looks for attempts that are due (s).
ATTEMPTS_EVERY_S = 0.25
IN_USE_FOR_S = 3600.0
# A look that takes long, because the server is slow or many old rows are in its way, makes the next one wait
# so many times as long.
PAUSE_PER_LOOK = 20
LONGEST_PAUSE_S = 1.0
# Looks over one connection before it is given back: to borrow it costs more than a look.
LOOKS = 30
# After a failure (s).
AGAIN_AFTER_S = 1.0


def pause_after(look_s: float, unused_s: float | None) -> float:
    """Seconds to pause after a look that found nothing.

    Args:
        look_s: how long the look took (s).
        unused_s: how long ago a look found an enqueued run (s); None: never.
    """
    is_in_use = unused_s is not None and unused_s < IN_USE_FOR_S
    every = EVERY_S if is_in_use else SELDOM_S
    return min(max(every, PAUSE_PER_LOOK * look_s), LONGEST_PAUSE_S)


class _Found(NamedTuple):
    """What a look found: enqueued runs, and whether attempts are due."""

    runs: enqueued.Due = enqueued.Due(False, False)
    attempts: bool = False


class EnqueuedThread:
    """Looks for enqueued runs and due attempts until it is stopped. A look that fails is logged and tried
    again.

    Args:
        deployment: starts the runs, over one connection more.
    """

    def __init__(self, deployment: Deployment) -> None:
        main = deployment.database
        self._database = Database(main.url, pool_size=1, sender=main.sender, react=main.react)
        self._values = deployment.values
        # Large inputs are rare: no connection is kept for them.
        self._for_large = Database(main.url, pool_size=0, sender=main.sender, react=main.react)
        self._failures_of_large = FailureLog(log, "enqueued.failed")
        self._large: Beside[None] | None = None
        self._found_at: float | None = None
        self._next_look_for_attempts = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeweave-enqueued", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; wait for a start that is under way."""
        self._end.set()
        self._thread.join(AGAIN_AFTER_S)
        self._database.dispose()

    def _run(self) -> None:
        failures = FailureLog(log, "enqueued.failed")
        while not self._end.is_set():
            try:
                with self._database.statements() as tx:
                    found = self._soon_due(tx)
                if found.attempts:
                    due_attempts.release_due(self._database)
                if not self._start(found.runs) and any(found.runs):
                    # Another process starts them, or nothing is accepted at the moment.
                    self._end.wait(EVERY_S)
            except Exception as error:
                failures.failed(error)
                self._end.wait(AGAIN_AFTER_S)
            else:
                failures.worked()

    def _start(self, due: enqueued.Due) -> int:
        """Start what is due; how much that was. Storage is waited for in another thread."""
        if due.large and not (self._large and self._large.is_under_way):
            self._large = Beside(self._start_large, "pipeweave-enqueued-large")
        return enqueued.run_once(self._database, self._values) if due.small else 0

    def _start_large(self) -> None:
        try:
            enqueued.run_large(self._for_large, self._values)
        except Exception as error:
            self._failures_of_large.failed(error)
        else:
            self._failures_of_large.worked()

    def _attempts_are_due(self, tx: Transaction, now: float) -> bool:
        if now < self._next_look_for_attempts:
            return False
        self._next_look_for_attempts = now + ATTEMPTS_EVERY_S
        return due_attempts.has_due(tx)

    def _soon_due(self, tx: Transaction) -> _Found:
        """Look some times; the answer comes at once when a run or an attempt is due."""
        for _ in range(LOOKS):
            began = time.monotonic()
            due = enqueued.has_due(tx)
            now = time.monotonic()
            if due.small or (due.large and not (self._large and self._large.is_under_way)):
                self._found_at = now
                return _Found(due, self._attempts_are_due(tx, now))
            if self._attempts_are_due(tx, now):
                return _Found(attempts=True)
            if self._end.wait(
                pause_after(now - began, None if self._found_at is None else now - self._found_at)
            ):
                break
        return _Found()
