"""Lists the attempts of a run: those that a row of `attempts` records, and the present or last one of each
task run, which its own row has.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.task_runs import RunAttempt
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.reading.task_runs import attempt_row, attempts_log
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest

# Each half reads its own page in the order of its primary key, so the cost is that of a page. Tracebacks are
# left out: one task run shows them.
_ATTEMPTS = """
SELECT x.* FROM (
    (SELECT a.task_run_id, a.number, a.status, a.worker, a.code_version, a.error - 'traceback' AS error,
            a.error_code, a.started_at, a.finished_at, a.dispatched_at, a.logs_path,
            t.step_id, t.task_id, t.map_index
     FROM attempts AS a JOIN task_runs AS t ON t.run_id = a.run_id AND t.id = a.task_run_id
     WHERE a.run_id = :run_id AND (a.task_run_id, a.number) > (:after, :number)
       AND (CAST(:status AS text) IS NULL OR a.status = :status)
       AND (CAST(:step_id AS text) IS NULL OR t.step_id = :step_id)
     ORDER BY a.task_run_id, a.number LIMIT :limit)
    UNION ALL
    (SELECT t.id, t.attempt, CAST(t.status AS text), t.worker, t.code_version, t.error - 'traceback',
            t.error_code, t.started_at, t.finished_at, t.dispatched_at, t.logs_path,
            t.step_id, t.task_id, t.map_index
     FROM task_runs AS t
     WHERE t.run_id = :run_id AND t.id >= :after AND (t.id, CAST(t.attempt AS integer)) > (:after, :number)
       AND t.started_at IS NOT NULL
       AND (CAST(:status AS text) IS NULL OR CAST(t.status AS text) = :status)
       AND (CAST(:step_id AS text) IS NULL OR t.step_id = :step_id)
       AND NOT EXISTS (
           SELECT FROM attempts AS a
           WHERE a.run_id = t.run_id AND a.task_run_id = t.id AND a.number = t.attempt)
     ORDER BY t.id LIMIT :limit)) AS x
ORDER BY x.task_run_id, x.number LIMIT :limit
"""


def run_attempts(
    tx: Transaction,
    tenant: str,
    id: UUID,
    page: PageRequest,
    *,
    status: str | None = None,
    step_id: str | None = None,
) -> Document:
    """Every attempt of a run that began, by task run and number: {items, nextCursor}.

    Args:
        status: only attempts that ended, or stand, so.
        step_id: only attempts of this step and its items.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, id)
    after = page.after("attempts", UUID, Int32)
    parameters = {
        "run_id": id,
        "after": after[0] if after else id,
        "number": after[1] if after else 0,
        "status": status,
        "step_id": step_id,
        "limit": page.limit + 1,
    }
    rows = tx.execute(_ATTEMPTS, parameters).all()
    return page.cut(rows, "attempts", lambda row: (row.task_run_id, row.number), _shown)


def _shown(row: Any) -> Document:
    logs_path = attempts_log(row, row.task_run_id, row.number)
    return attempt_row(row, row.number, row.status, RunAttempt, logs_path=logs_path)
