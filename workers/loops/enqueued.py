"""Starts enqueued runs, releases attempts and looks at waits that are due, soon after a commit of a caller or
the end of a short delay: the next tick may be a second away.

One statement looks for all of them, at indexes that are nearly always empty. A notification by PostgreSQL
would save the looks, and make every caller's commit wait for all others (docs/decisions/0035-enqueue.md).
"""

from __future__ import annotations

import threading
import time

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.store import Transaction
from pipeweave.orchestrator.waits import due as waits
from pipeweave.workers.loops.attempt_looks import EVERY_S, IN_USE_FOR_S, SELDOM_S, AttemptLooks
from pipeweave.workers.loops.loop import Turn
from pipeweave.workers.loops.work_beside import WorkBeside

# A look that takes long, because the server is slow or many old rows are in its way, makes the next one wait
# so many times as long.
PAUSE_PER_LOOK = 20
LONGEST_PAUSE_S = 1.0
# Looks over one connection before it is given back: to borrow it costs more than a look.
LOOKS = 30


def pause_after(look_s: float, unused_s: float | None, *, is_often: bool = False) -> float:
    """Seconds to pause after a look that found nothing.

    Args:
        look_s: how long the look took (s).
        unused_s: how long ago a look found an enqueued run (s); None: never.
        is_often: something else needs looks as often as enqueued runs do.
    """
    is_in_use = unused_s is not None and unused_s < IN_USE_FOR_S
    every = EVERY_S if is_in_use or is_often else SELDOM_S
    return min(max(every, PAUSE_PER_LOOK * look_s), LONGEST_PAUSE_S)


def turns(deployment: Deployment) -> Turn:
    """Each looks some times, and starts what is due."""
    return EnqueuedStarts(deployment).turn


class EnqueuedStarts:
    """Starts enqueued runs, releases due attempts, and looks at due waits.

    Args:
        deployment: with one connection of its own.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._database = main = deployment.database
        self._values = values = deployment.values
        # What needs storage is rare: no connection is kept for it.
        self._large = WorkBeside(
            main,
            "enqueued-large",
            "enqueued.failed",
            lambda each: enqueued.run_large(each, values),
            pool_size=0,
        )
        self._waits = WorkBeside(
            main,
            "waits",
            "waits.failed",
            lambda each: waits.until_through(lambda: waits.run_once(each)),
            pool_size=1,
        )
        self._stored_waits = WorkBeside(
            main,
            "waits-stored",
            "waits.failed",
            lambda each: waits.until_through(lambda: waits.run_stored(each, values)),
            pool_size=0,
        )
        self._found_at: float | None = None
        self._attempts = AttemptLooks()
        self._next_look_for_waits = 0.0

    def turn(self, end: threading.Event) -> float:
        """Look some times, and start what is due."""
        with self._database.statements() as tx:
            due = self._soon_due(tx, end)
        if due is None:
            return 0.0
        if due.also:
            has_attempts, has_waits, has_stored_waits = due.also
            if has_attempts:
                due_attempts.release_due(self._database)
            if has_waits:
                self._waits.begin()
            if has_stored_waits:
                self._stored_waits.begin()
        has_started = self._start(due) > 0
        # Another process starts them, or nothing is accepted at the moment.
        return EVERY_S if (due.small or due.large) and not has_started else 0.0

    def _start(self, due: enqueued.Due) -> int:
        """Start what is due; how much that was. Storage is waited for in another thread."""
        if due.large:
            self._large.begin()
        return enqueued.run_once(self._database, self._values) if due.small else 0

    def _soon_due(self, tx: Transaction, end: threading.Event) -> enqueued.Due | None:
        """Look some times; the answer comes at once when a run or an attempt is due."""
        for _ in range(LOOKS):
            began = time.monotonic()
            due = enqueued.has_due(tx, *self._others(began))
            now = time.monotonic()
            also = due.also and (self._attempts.saw(now, due.also[0]), *due.also[1:])
            if due.small or (due.large and not self._large.is_under_way):
                self._found_at = now
                return due._replace(also=also)
            if any(also):
                return due._replace(also=also)
            if end.wait(self._pause(now, look_s=now - began)):
                break
        return None

    def _pause(self, now: float, *, look_s: float) -> float:
        unused_s = None if self._found_at is None else now - self._found_at
        pause = pause_after(look_s, unused_s, is_often=self._attempts.are_often(now))
        foreseen = self._attempts.until_foreseen(now)
        return pause if foreseen is None else min(pause, foreseen)

    def _others(self, now: float) -> tuple[str, ...]:
        """SQL: when attempts are due, and whether waits, and waits that need storage, are; nothing while it
        is too early to look again.
        """
        if now < self._attempts.next_at:
            return ()
        if now < self._next_look_for_waits:
            return due_attempts.DUE_IN_S, "false", "false"
        self._next_look_for_waits = now + SELDOM_S
        return (
            due_attempts.DUE_IN_S,
            "false" if self._waits.is_under_way else waits.MAY_BE_LOOKED_AT,
            "false" if self._stored_waits.is_under_way else waits.MAY_BE_LOADED,
        )
