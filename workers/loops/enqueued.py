"""Starts enqueued runs, and releases attempts that are due, soon after a caller's commit or the end of a
short delay: the next tick may be a second away.

It looks at indexes that are nearly always empty. A notification by PostgreSQL would save the looks, and make
every caller's commit wait for all others (docs/decisions/0035-enqueue.md).
"""

from __future__ import annotations

import logging
import threading
import time

from pipeweave.beside import Beside
from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.store import Database, Transaction
from pipeweave.workers.loops.loop import Turn

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


def pause_after(look_s: float, unused_s: float | None) -> float:
    """Seconds to pause after a look that found nothing.

    Args:
        look_s: how long the look took (s).
        unused_s: how long ago a look found an enqueued run (s); None: never.
    """
    is_in_use = unused_s is not None and unused_s < IN_USE_FOR_S
    every = EVERY_S if is_in_use else SELDOM_S
    return min(max(every, PAUSE_PER_LOOK * look_s), LONGEST_PAUSE_S)


def turns(deployment: Deployment) -> Turn:
    """Each looks some times, and starts what is due."""
    return EnqueuedStarts(deployment).turn


class EnqueuedStarts:
    """Starts enqueued runs and releases due attempts.

    Args:
        deployment: with one connection of its own.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._database = main = deployment.database
        self._values = deployment.values
        # Large inputs are rare: no connection is kept for them.
        self._for_large = Database(main.url, pool_size=0, sender=main.sender, react=main.react)
        self._failures_of_large = FailureLog(log, "enqueued.failed")
        self._large: Beside[None] | None = None
        self._found_at: float | None = None
        self._next_look_for_attempts = 0.0

    def turn(self, end: threading.Event) -> float:
        """Look some times, and start what is due."""
        with self._database.statements() as tx:
            due = self._soon_due(tx, end)
        if due is None:
            return 0.0
        if due.also:
            due_attempts.release_due(self._database)
        has_started = self._start(due) > 0
        # Another process starts them, or nothing is accepted at the moment.
        return EVERY_S if (due.small or due.large) and not has_started else 0.0

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

    def _soon_due(self, tx: Transaction, end: threading.Event) -> enqueued.Due | None:
        """Look some times; the answer comes at once when a run or an attempt is due."""
        for _ in range(LOOKS):
            began = time.monotonic()
            is_for_attempts = began >= self._next_look_for_attempts
            if is_for_attempts:
                self._next_look_for_attempts = began + ATTEMPTS_EVERY_S
            due = enqueued.has_due(tx, due_attempts.MAY_BE_RELEASED if is_for_attempts else "false")
            now = time.monotonic()
            if due.small or (due.large and not (self._large and self._large.is_under_way)):
                self._found_at = now
                return due
            if due.also:
                return due
            if end.wait(pause_after(now - began, None if self._found_at is None else now - self._found_at)):
                break
        return None
