"""Starts enqueued runs, releases attempts and looks at waits that are due, soon after a commit of a caller or
the end of a short delay: the next tick may be a second away.

One statement looks for all of them, at indexes that are nearly always empty. While runs are enqueued, the
looks come often. Where none was for a second, they come seldom, and PostgreSQL notifies of the next one
(docs/decisions/0128-sleeping-until-a-run-is-enqueued.md).
"""

from __future__ import annotations

import threading
import time

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.store import Alarm, Transaction
from pipeweave.orchestrator.waits import due as waits
from pipeweave.workers.loops.attempt_looks import EVERY_S, SELDOM_S, AttemptLooks
from pipeweave.workers.loops.loop import Turn
from pipeweave.workers.loops.work_beside import WorkBeside

# Looks come often for so long (s) after a run that was enqueued: where PostgreSQL notifies of the next one,
# and where it cannot.
AWAKE_FOR_S = 1.0
IN_USE_FOR_S = 3600.0
# A look that takes long, because the server is slow or many old rows are in its way, makes the next one wait
# so many times as long.
PAUSE_PER_LOOK = 20
LONGEST_PAUSE_S = 1.0
# Looks over one connection before it is given back: to borrow it costs more than a look.
LOOKS = 120


def pause_after(look_s: float, *, is_often: bool) -> float:
    """Seconds to pause after a look that found nothing.

    Args:
        look_s: how long the look took (s).
        is_often: something needs frequent looks.
    """
    every = EVERY_S if is_often else SELDOM_S
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
        # When a look found an enqueued run, or one was notified of.
        self._used_at: float | None = None
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
        with enqueued.alarm(tx) as alarm:
            for _ in range(LOOKS):
                began = time.monotonic()
                due = self._due(tx, began)
                if due is not None:
                    return due
                self._pause(alarm, end, look_s=time.monotonic() - began)
                if end.is_set():
                    break
        return None

    def _due(self, tx: Transaction, began: float) -> enqueued.Due | None:
        """What is due; None if nothing is."""
        due = enqueued.has_due(tx, *self._others(began))
        now = time.monotonic()
        also = due.also and (self._attempts.saw(now, due.also[0]), *due.also[1:])
        has_runs = due.small or (due.large and not self._large.is_under_way)
        if has_runs:
            self._used_at = now
        return due._replace(also=also) if has_runs or any(also) else None

    def _pause(self, alarm: Alarm, end: threading.Event, *, look_s: float) -> None:
        now = time.monotonic()
        if not alarm.is_set and not self._was_used(now, AWAKE_FOR_S) and alarm.set():
            # What was enqueued before it was set is looked for at once.
            return
        is_in_use = self._was_used(now, AWAKE_FOR_S if alarm.is_set else IN_USE_FOR_S)
        pause = pause_after(look_s, is_often=is_in_use or self._attempts.are_often(now))
        foreseen = self._attempts.until_foreseen(now)
        if foreseen is not None:
            pause = min(pause, foreseen)
        if not alarm.is_set:
            end.wait(pause)
        elif alarm.wait(pause):
            # If another process is the first to start it, this one is not notified of those that follow.
            self._used_at = time.monotonic()

    def _was_used(self, now: float, within_s: float) -> bool:
        return self._used_at is not None and now - self._used_at < within_s

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
