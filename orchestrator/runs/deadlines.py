"""Runs that take too long, or in which nothing happens for too long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, TaskStatus, sql_in
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.state import cancelling, run_transitions
from pipeweave.orchestrator.store.database import Database, Transaction

# One look ends at most this many; the next one goes on.
BATCH = 100
RUN_TIMEOUT, RUN_IDLE = "RUN_TIMEOUT", "RUN_IDLE_TIMEOUT"

_ACTIVE = f"r.status IN {sql_in(ACTIVE_RUN)}"

# A run's own limit first; the deployment's holds for runs whose pipeline names none. A standalone task has
# the limits of its attempts, and a dead letter at their end. Ids are ordered by time, so that the second look
# goes over old active runs alone.
_LATE = f"""
(SELECT r.id, r.tenant_id FROM runs AS r
 WHERE r.finished_at IS NULL AND r.deadline_at < now() ORDER BY r.deadline_at LIMIT :batch)
UNION ALL
(SELECT r.id, r.tenant_id FROM runs AS r
 WHERE {_ACTIVE} AND r.id < :before AND r.deadline_at IS NULL
   AND r.pipeline_id IS NOT NULL AND coalesce(r.reopened_at, r.started_at) < now() - CAST(:limit AS interval)
 LIMIT :batch)
"""

# Task runs of these statuses keep their run from being idle: running, or held back by a limit or a pause.
_BUSY = frozenset({TaskStatus.READY, TaskStatus.RUNNING})

# Waiting for another attempt is not idleness either.
_IDLE = f"""
SELECT r.id, r.tenant_id FROM runs AS r
WHERE r.finished_at IS NULL AND r.idle_timeout_ms IS NOT NULL AND {_ACTIVE} AND r.started_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task_runs AS t WHERE t.run_id = r.id
                  AND (t.status IN {sql_in(_BUSY)} OR t.due_at IS NOT NULL))
  AND (SELECT e.at FROM events AS e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1)
      < now() - r.idle_timeout_ms * interval '1 millisecond'
ORDER BY r.id LIMIT :batch
"""


def enforce(database: Database, limit: timedelta | None) -> int:
    """End runs beyond their time limit, or idle for longer than theirs allows. How many there were.

    Args:
        limit: of runs whose pipeline names none; None for no limit.
    """
    with database.statements() as tx:
        never = timedelta(days=36_500)
        before = ids.first_id_at(0 if limit is None else int((tx.now - limit).timestamp() * 1000) + 60_000)
        late = list(tx.execute(_LATE, {"before": before, "limit": limit or never, "batch": BATCH}))
        idle = list(tx.execute(_IDLE, {"batch": BATCH}))
    for row in late:
        _end(database, row, RUN_TIMEOUT, "the run took longer than its time limit")
    for row in idle:
        _end(database, row, RUN_IDLE, "nothing happened in the run for longer than its idle timeout")
    return len(late) + len(idle)


def _end(database: Database, row: Any, code: str, message: str) -> None:
    database.run(lambda tx: end(tx, row.tenant_id, row.id, code, message))


def end(tx: Transaction, tenant: str, run_id: UUID, code: str, message: str) -> bool:
    """Fail an open run with this error and cancel what is open in it. False when it had ended already."""
    if not run_transitions.time_out(tx, run_id, code, message):
        return False
    cancelled = cancelling.cancel_all(tx, run_id, code=code, message=message)
    limits.fill(tx, tenant, {each.task_id for each in cancelled if each.is_limited and each.kind != "map"})
    return True
