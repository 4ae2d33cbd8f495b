"""The tick: a bounded pass over what may have been lost, every POLL_INTERVAL_MS.

It is the safety net, not the engine: in a healthy deployment it finds nothing to do. Several beats may run
it; the advisory lock lets one act at a time, and every act is guarded, so that two would be harmless.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

from pipeweave.orchestrator.deadletters import redrives
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.queueing import limits, maintenance_mode, pauses
from pipeweave.orchestrator.recovery import due_attempts, lost_messages, task_moves, tick_status
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.retention import expiry, partitions
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import admission, deadlines
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database

# Partitions are made months ahead, so once an hour is often.
_PARTITIONS_EVERY_S = 3600
_next_partitions = 0.0

# A message is looked for only when it is late: most are consumed within milliseconds.
LATE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one tick did; all zero when nothing was lost."""

    # Another process was ticking, so that this one did nothing.
    is_elsewhere: bool = False

    republished: int = 0
    joins_checked: int = 0
    followers_brought: int = 0
    limits_filled: int = 0
    held_back: int = 0
    workers_lost: int = 0
    attempts_ended: int = 0
    retries_released: int = 0
    runs_timed_out: int = 0
    runs_admitted: int = 0
    purged: int = 0
    redriven: int = 0


def run_once(deployment: Deployment) -> Ticked:
    """One tick. Its parts are transactions of their own, so that none waits for another's locks.

    During maintenance nothing is sent or moved: only lost workers are noted. While it is waited for, all goes
    on, and the end of a run that nobody noticed is noticed here.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with advisory_locks.alone(deployment.database, advisory_locks.TICK) as is_alone:
        if not is_alone:
            return Ticked(is_elsewhere=True)
        with deployment.database.statements() as tx:
            is_quiet = deployment_mode.mode(tx) == deployment_mode.MAINTENANCE
        ticked = _watch(deployment.database) if is_quiet else _act(deployment)
        with deployment.database.statements() as tx:
            if tick_status.note(tx) == deployment_mode.WAITING:
                tx.afterwards(maintenance_mode.enter_if_drained)
        return ticked


def _watch(database: Database) -> Ticked:
    with database.transaction() as tx:
        worker_processes.mark_lost(tx)
    return Ticked()


def _act(deployment: Deployment) -> Ticked:
    database = deployment.database
    _keep_partitions(database)
    with database.transaction() as tx:
        lost_workers = worker_processes.mark_lost(tx)
    with database.transaction() as tx:
        found = losses.of_lost_workers(tx)
        found += [each for each in losses.of_time(tx) if each[0].id not in {known.id for known, _ in found}]
    ended = losses.end(database, found, max_retry_delay_ms=deployment.settings.max_retry_delay_ms)
    held_back = database.run(pauses.take_back)
    released = due_attempts.release(database)
    limit = deployment.settings.max_execution_timeout
    timed_out = deadlines.enforce(database, timedelta(milliseconds=limit) if limit else None)
    admitted = admission.admit_waiting(database)
    brought = task_moves.bring(database)
    filled = limits.fill_waiting(database)
    redriven = redrives.run_once(database)
    purged = expiry.run_hourly(database, Policy.of(deployment.settings))
    with database.transaction() as tx:
        return Ticked(
            republished=lost_messages.republish(tx, deployment.publisher, LATE),
            joins_checked=lost_messages.check_joins(tx, LATE),
            followers_brought=brought,
            limits_filled=filled,
            held_back=held_back,
            workers_lost=len(lost_workers),
            attempts_ended=ended,
            retries_released=released,
            runs_timed_out=timed_out,
            runs_admitted=admitted,
            purged=purged,
            redriven=redriven,
        )


def _keep_partitions(database: Database) -> None:
    global _next_partitions
    if time.monotonic() >= _next_partitions:
        partitions.ensure_without_waiting(database, database.now())
        _next_partitions = time.monotonic() + _PARTITIONS_EVERY_S
