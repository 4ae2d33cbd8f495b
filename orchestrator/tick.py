"""The tick: a bounded pass over what may have been lost, every POLL_INTERVAL_MS.

It is the safety net, not the engine: in a healthy deployment it finds nothing to do. Several beats may run
it; the advisory lock lets one act at a time, and every act is guarded, so that two would be harmless.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

from pipeweave.orchestrator import healing, limits, partitions, workers
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.deployment import Deployment

_LOCK = 0x7469636B

# Partitions are made months ahead, so once an hour is often.
_PARTITIONS_EVERY_S = 3600
_next_partitions = 0.0

# A message is looked for only when it is late: most are consumed within milliseconds.
LATE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one tick did; all zero when another process holds the lock or nothing was lost."""

    republished: int = 0
    joins_checked: int = 0
    limits_filled: int = 0
    workers_lost: int = 0


def run_once(deployment: Deployment) -> Ticked:
    """One tick.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with deployment.database.transaction() as tx:
        if not tx.execute("SELECT pg_try_advisory_xact_lock(:lock)", {"lock": _LOCK}).scalar_one():
            return Ticked()
        _keep_partitions(tx)
        lost = workers.reap(tx)
        return Ticked(
            republished=healing.republish(tx, deployment.canvas, LATE),
            joins_checked=healing.check_joins(tx, LATE),
            limits_filled=_fill_limits(tx),
            workers_lost=len(lost),
        )


def _keep_partitions(tx: Transaction) -> None:
    global _next_partitions
    if time.monotonic() >= _next_partitions:
        partitions.ensure(tx, tx.now)
        _next_partitions = time.monotonic() + _PARTITIONS_EVERY_S


_READY = "SELECT DISTINCT t.tenant_id, t.task_id FROM task_runs AS t WHERE t.status = 'ready' LIMIT 100"


def _fill_limits(tx: Transaction) -> int:
    """A task whose limit was raised, or whose finishing worker died before it filled the limit, goes on
    here.
    """
    waiting = tx.execute(_READY).all()
    for row in waiting:
        limits.fill(tx, row.tenant_id, [row.task_id])
    return len(waiting)
