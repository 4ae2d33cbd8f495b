"""Ends runs that exceed their time limit, or in which nothing happens for longer than their idle timeout."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.durations import in_words
from pipeweave.orchestrator.domain.failure import TIMEOUT_MS
from pipeweave.orchestrator.domain.log_names import names_of_run
from pipeweave.orchestrator.domain.queue_names import is_parking_sql
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, RunStatus, TaskStatus, sql_in
from pipeweave.orchestrator.engine import endings
from pipeweave.orchestrator.engine.endings import EarlyEnd
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

log = logging.getLogger(__name__)

# One call ends at most this many late runs and as many idle ones; the next tick continues.
BATCH = 100
RUN_TIMEOUT, RUN_IDLE = "RUN_TIMEOUT", "RUN_IDLE_TIMEOUT"

# Longer than any run.
_NEVER = timedelta(days=36_500)

# The limits of a run are those of its steps: its ending has one of its own.
_ACTIVE = f"r.status IN {sql_in(ACTIVE_RUN)} AND r.ending IS NULL"

# A paused run has no deadline: when it is resumed, its deadline is later by the time of the pause.
# First runs past their own deadline; then runs without one past the deployment's limit. Standalone tasks are
# left out: the timeouts of their attempts end them, with a dead letter. Ids are ordered by time, so the
# second half reads only old active runs.
_LATE = f"""
(SELECT r.id, r.tenant_id, r.deadline_at - coalesce(r.reopened_at, r.started_at)
    - r.paused_ms * interval '1 millisecond' AS own_limit FROM runs AS r
 WHERE r.finished_at IS NULL AND r.deadline_at < now() AND r.status <> 'paused' AND r.ending IS NULL
 ORDER BY r.deadline_at LIMIT :batch)
UNION ALL
(SELECT r.id, r.tenant_id, NULL FROM runs AS r
 WHERE {_ACTIVE} AND r.id < :before AND r.deadline_at IS NULL
   AND r.pipeline_id IS NOT NULL AND coalesce(r.reopened_at, r.started_at)
       + r.paused_ms * interval '1 millisecond' < now() - CAST(:limit AS interval)
 LIMIT :batch)
"""

# Task runs of these statuses keep their run from being idle: running, held back by a limit or a pause, or
# waiting for something that has a time limit of its own.
_BUSY = frozenset({TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.WAITING})
# So does one that is queued behind others; not one that nobody can take.
_HAS_ITS_TURN = f"t.status = '{TaskStatus.QUEUED}' AND NOT {is_parking_sql('t.queue')}"

# A run that waits for the next attempt of a task run is not idle either.
_IDLE = f"""
SELECT r.id, r.tenant_id, r.idle_timeout_ms FROM runs AS r
WHERE r.finished_at IS NULL AND r.quiet_since IS NULL AND r.idle_timeout_ms IS NOT NULL AND {_ACTIVE}
  AND r.started_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM task_runs AS t WHERE t.run_id = r.id
                  AND (t.status IN {sql_in(_BUSY)} OR t.due_at IS NOT NULL OR ({_HAS_ITS_TURN})))
  AND (SELECT e.at FROM events AS e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1)
      < now() - r.idle_timeout_ms * interval '1 millisecond'
ORDER BY r.id LIMIT :batch
"""

# SQL: whether `enforce` has anything to do, with `parameters`.
IS_DUE = f"(EXISTS ({_LATE.replace(':batch', '1')}) OR EXISTS ({_IDLE.replace(':batch', '1')}))"


def parameters(now: datetime, limit: timedelta | None) -> dict[str, Any]:
    """The parameters of IS_DUE.

    Args:
        now: by PostgreSQL's clock.
        limit: the time limit of runs whose pipeline names none; None for no limit.
    """
    before = ids.first_id_at(0 if limit is None else int((now - limit).timestamp() * 1000) + 60_000)
    return {"before": before, "limit": limit or _NEVER}


def enforce(database: Database, limit: timedelta | None) -> int:
    """Fail runs past their time limit, and runs that were idle for longer than their idle timeout.

    Args:
        limit: the time limit of runs whose pipeline names none; None for no limit.

    Returns:
        How many such runs were found.

    Raises:
        PartlyFailed: some runs could not be ended; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        late = list(tx.execute(_LATE, parameters(tx.now, limit) | {"batch": BATCH}))
        idle = list(tx.execute(_IDLE, {"batch": BATCH}))
    isolation = Isolation(database)
    ended = sum(isolation.run(lambda row=row: _end_late(database, row, limit), run_id=row.id) for row in late)  # type: ignore[misc]
    ended += sum(isolation.run(lambda row=row: _end_idle(database, row), run_id=row.id) for row in idle)  # type: ignore[misc]
    return isolation.finish(ended)


def _end_late(database: Database, row: Any, limit: timedelta | None) -> int:
    source = "MAX_EXECUTION_TIMEOUT" if row.own_limit is None else "the pipeline's timeout"
    allowed: timedelta = row.own_limit or limit or timedelta()
    limit_ms = round(allowed.total_seconds() * 1000)
    message = f"the run took longer than {in_words(limit_ms)} ({source})"
    database.run(lambda tx: time_out_run(tx, row.tenant_id, row.id, RUN_TIMEOUT, message, limit_ms))
    return 1


def _end_idle(database: Database, row: Any) -> int:
    limit_ms = row.idle_timeout_ms
    message = (
        f"nothing happened in the run for longer than {in_words(limit_ms)} (the pipeline's idle timeout)"
    )
    database.run(lambda tx: time_out_run(tx, row.tenant_id, row.id, RUN_IDLE, message, limit_ms))
    return 1


def time_out_run(
    tx: Transaction, tenant: str, run_id: UUID, code: str, message: str, limit_ms: int | None = None
) -> bool:
    """Fail an open run with this error and cancel its open task runs. False when the run had ended before.

    Args:
        limit_ms: the limit that it exceeded (ms); None if that is not known.
    """
    run = run_headers.load(tx, run_id)
    if run is None:
        return False
    error = {"code": code, "message": message}
    details = {} if limit_ms is None else {"details": {TIMEOUT_MS: limit_ms}}
    cancelled = endings.end_early(tx, run, EarlyEnd(RunStatus.FAILED, {**error, **details}, code, message))
    if cancelled is None:
        return False
    said = {**names_of_run(run), "error_code": code, "timeout_ms": limit_ms}
    tx.after_commit(lambda: log.warning("run.timeout_exceeded", extra=said))
    limits.fill(tx, tenant, {each.task_id for each in cancelled if each.takes_slot})
    return True
