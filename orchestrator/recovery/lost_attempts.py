"""Ends attempts whose worker is gone, which are silent, or which are far beyond their time limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.dispatch.serverless import BEATING, TICK
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.engine.losses import Loss
from pipeweave.orchestrator.registry.worker_processes import (
    CONFIRM_AFTER,
    LOST_AFTER,
    SUSPECT_AFTER,
    WORKER_OF,
)
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.store.database import Transaction

# One tick ends at most this many attempts of each kind; the next tick goes on.
BATCH = 1_000
# After its time limit an attempt is ended by its own worker, by function or process. The tick leaves the
# worker this long.
OVERDUE_AFTER = timedelta(seconds=15)


def run_once(deployment: Deployment) -> int:
    """End what was lost. Returns the number of attempts.

    Raises:
        PartlyFailed: the attempts of some runs could not be ended.
    """
    with deployment.database.transaction() as tx:
        lost = of_lost_workers(tx)
        known = {run.id for run, _ in lost}
        lost += [loss for loss in of_time(tx) if loss[0].id not in known]
    cap = deployment.settings.max_retry_delay_ms
    return losses.end(deployment.database, lost, max_retry_delay_ms=cap)


# A tick that dispatches is no registered worker: its claims are lost when they are older than any dispatch.
DISPATCHING = timedelta(seconds=30)
# So are those of an API process without heartbeats, as soon as a worker.
_IS_BEATING = f"t.dispatched_at IS NULL AND left(t.worker, {len(BEATING)}) = '{BEATING}'"
_HAS_STOPPED_BEATING = f"""({_IS_BEATING} AND t.suspected_at > t.heartbeat_at
    AND t.heartbeat_at < now() - interval '{LOST_AFTER.total_seconds()} seconds'
    AND t.suspected_at <= now() - interval '{CONFIRM_AFTER.total_seconds()} seconds')"""
_IS_LEFT = f"""(t.dispatched_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.id = {WORKER_OF} AND w.stopped_at IS NULL)
    AND (left(t.worker, {len(TICK)}) <> '{TICK}'
        OR t.claimed_at < now() - interval '{DISPATCHING.total_seconds()} seconds'
        OR {_HAS_STOPPED_BEATING}))"""

# What runs is bounded by the workers there are, so a look may see all of it.
_ON_LOST_WORKERS = f"""
SELECT {COLUMNS}, t.worker, t.claimed_at FROM task_runs AS t
WHERE t.status = 'running' AND {_IS_LEFT}
ORDER BY t.run_id, t.id LIMIT :batch
"""


def of_lost_workers(tx: Transaction) -> list[Loss]:
    """Attempts of workers that are not alive."""
    rows: list[Any] = list(tx.execute(_ON_LOST_WORKERS, {"batch": BATCH}))
    together = Counter(_claim(row) for row in rows)
    # A worker claims several small task runs at once and calls them one after the other. Nobody can say any
    # more which of them it had begun: each may have run, so each is an attempt, but uses up no attempt.
    return [
        (of_row(row), failure.lost("its worker is gone", is_certain=together[_claim(row)] == 1))
        for row in rows
    ]


def _claim(row: Any) -> tuple[UUID, str, Any]:
    return row.run_id, row.worker, row.claimed_at


_SILENT_SINCE = "t.heartbeat_at < now() - k.heartbeat_interval_ms * interval '2 milliseconds'"
_IS_SUSPICIOUS = f"""({_SILENT_SINCE} OR ({_IS_BEATING}
    AND t.heartbeat_at < now() - interval '{SUSPECT_AFTER.total_seconds()} seconds'))"""

# A locked row is left to the next tick.
_SUSPECT = f"""
WITH silent AS MATERIALIZED (
    SELECT t.run_id, t.id
    FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
    WHERE t.status = 'running' AND {_IS_SUSPICIOUS}
      AND (t.suspected_at IS NULL OR t.suspected_at < t.heartbeat_at)
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE task_runs AS t SET suspected_at = now() FROM silent AS s WHERE t.run_id = s.run_id AND t.id = s.id
"""

# Where its worker has been silent as well, the loss of the worker decides: the attempt may never have begun.
_SILENT = f"""
SELECT {COLUMNS}, k.heartbeat_interval_ms AS interval_ms
FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.status = 'running' AND {_SILENT_SINCE} AND t.suspected_at > t.heartbeat_at
  AND t.suspected_at <= now() - CAST(:confirm AS interval)
  AND (t.dispatched_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM workers AS w
      WHERE w.id = {WORKER_OF} AND w.stopped_at IS NULL AND w.heartbeat_at <= t.suspected_at))
ORDER BY t.run_id, t.id LIMIT :batch
"""

# The time limit (s) of the step, or else of its task.
_LIMIT_S = "coalesce(t.timeout_ms / 1000.0, k.timeout_seconds)"
# Nobody but the tick ends an attempt that a service runs.
_OVERDUE_SINCE = f"""t.claimed_at < now() - {_LIMIT_S} * interval '1 second'
    - CASE WHEN t.dispatched_at IS NULL THEN interval '{OVERDUE_AFTER.total_seconds()} seconds'
        ELSE interval '0' END"""

_OVERDUE = f"""
SELECT {COLUMNS}, {_LIMIT_S} AS limit_s
FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.status = 'running' AND {_OVERDUE_SINCE}
ORDER BY t.run_id, t.id LIMIT :batch
"""


# SQL: whether there is anything for this chore.
IS_DUE = f"""EXISTS (SELECT 1 FROM task_runs AS t
    LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
    WHERE t.status = 'running'
        AND ({_IS_SUSPICIOUS} OR {_OVERDUE_SINCE} OR {_IS_LEFT}))"""


def of_time(tx: Transaction) -> list[Loss]:
    """Attempts that were silent for twice their heartbeat interval, or run far beyond their time limit.

    Silence counts when two looks found it: after PostgreSQL was away, every attempt looks silent at first.
    """
    tx.execute(_SUSPECT)
    silent: Iterable[Any] = tx.execute(_SILENT, {"confirm": CONFIRM_AFTER, "batch": BATCH})
    overdue: Iterable[Any] = tx.execute(_OVERDUE, {"batch": BATCH})
    silent_losses = {row.id: (of_row(row), failure.silent(row.interval_ms)) for row in silent}
    return list(
        (
            {row.id: (of_row(row), failure.overdue(float(row.limit_s))) for row in overdue} | silent_losses
        ).values()
    )
