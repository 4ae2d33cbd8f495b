"""Reads the state of maintenance: counts over all tenants, and the runs that block it."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.documents.maintenance import (
    BlockingRun,
    Maintenance,
    MaintenanceState,
    OpenTaskRuns,
)
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.json_shapes import run_id, task_run_id
from pipeweave.orchestrator.queueing.maintenance_mode import ACTIVE_RUNS, PAUSED_RUNS
from pipeweave.orchestrator.reading.time_to_drain import empty_in_ms
from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, WAITING
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# How many of the blocking runs are shown, oldest first.
SHOWN = 20

_OPEN_RUNS = f"""(SELECT count(*) {ACTIVE_RUNS})
    + (SELECT coalesce(sum(p.number), 0)
       FROM tenants AS t CROSS JOIN LATERAL (SELECT count(*) AS number {PAUSED_RUNS} LIMIT 1) AS p)"""

# Each count reads a partial index of open rows: finished rows cost nothing.
_STATE = f"""
SELECT s.mode, s.mode_changed_at, s.reason,
       (SELECT count(*) FROM task_runs WHERE status = 'queued')
           + (SELECT count(*) FROM task_runs WHERE status = 'ready')
           + (SELECT count(*) FROM task_runs WHERE status = 'pending' AND due_at IS NOT NULL)
           + (SELECT count(*) FROM task_runs AS t
              WHERE t.status = 'waiting' AND {kind_sql.IS_CALLED}) AS pending,
       (SELECT count(*) FROM task_runs WHERE status = 'running') AS running,
       CASE WHEN s.mode = '{WAITING}' THEN {_OPEN_RUNS} END AS open_runs
FROM orchestrator_state AS s
"""


def state(tx: Transaction) -> Document:
    """The maintenance mode, and how much is open in all tenants.

    `pendingTasks` counts task runs that wait for a worker, a limit, their next attempt or something outside;
    `runningTasks` counts those that a worker runs. Maintenance can be entered once no run is open.
    """
    return _state(tx.execute(_STATE).one(), Maintenance)


def _state(row: Any, answer: type[Maintenance], **more: Any) -> Document:
    return answer.of(
        row,
        can_enter_maintenance=row.open_runs == 0,
        pending_tasks=row.pending,
        running_tasks=row.running,
        message=_message(row.mode, row.open_runs),
        **more,
    )


def _message(mode: str, open_runs: int | None) -> str:
    if mode == RUNNING:
        return "New work is accepted."
    if mode == MAINTENANCE:
        return "Nothing runs, and new work is refused."
    if not open_runs:
        return "New work is refused, and all runs have ended: maintenance mode can be entered."
    runs = "1 unfinished run has" if open_runs == 1 else f"{open_runs:,} unfinished runs have"
    return f"New work is refused; maintenance mode begins when {runs} ended."


_SHOWN = "r.id, r.tenant_id, r.pipeline_id, r.status, r.created_at"
_OLDEST = f"ORDER BY r.id LIMIT {SHOWN}"

_BLOCKING = f"""
WITH blocking AS (
    SELECT o.* FROM (
        (SELECT {_SHOWN} {ACTIVE_RUNS} {_OLDEST})
        UNION ALL
        (SELECT p.* FROM tenants AS t CROSS JOIN LATERAL (SELECT {_SHOWN} {PAUSED_RUNS} {_OLDEST}) AS p)) AS o
    ORDER BY o.id LIMIT {SHOWN}
)
SELECT b.*, c.*, greatest(extract(epoch FROM now() - b.created_at), 0) AS age,
       CASE WHEN b.pipeline_id IS NULL
            THEN (SELECT s.task_id FROM task_runs AS s WHERE s.run_id = b.id LIMIT 1) END AS task_id
FROM blocking AS b CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE t.status = 'running') AS running,
           count(*) FILTER (WHERE t.status = 'queued') AS queued,
           count(*) FILTER (WHERE t.status = 'ready') AS ready,
           count(*) FILTER (WHERE t.status = 'waiting') AS waiting,
           count(*) FILTER (WHERE t.status = 'pending') AS pending
    FROM task_runs AS t WHERE t.run_id = b.id AND {kind_sql.IS_CALLED} AND t.finished_at IS NULL) AS c
ORDER BY b.id
"""


def detailed_state(tx: Transaction) -> Document:
    """`state` with `blocking`, the oldest SHOWN open runs of all tenants, `blockingTotal`, and `emptyInMs`,
    about when the last of them ends.

    For administrators: the runs of every tenant are shown with their ids. Ages are in seconds.
    """
    total = tx.execute(f"SELECT {_OPEN_RUNS}").scalar_one()
    blocking = [
        BlockingRun.of(
            row,
            # The id to cancel: of a standalone task the API shows only its task run.
            id=run_id(row.id) if row.task_id is None else task_run_id(ids.task_run_id(row.id, 1)),
            tenant=row.tenant_id,
            age=round(float(row.age), 1),
            task_runs=OpenTaskRuns.of(row),
        )
        for row in tx.execute(_BLOCKING)
    ]
    row = tx.execute(_STATE).one()
    left = empty_in_ms(tx, row.pending + row.running)
    return _state(row, MaintenanceState, blocking=blocking, blocking_total=int(total), empty_in_ms=left)
