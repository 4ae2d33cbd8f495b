"""Finds an open wait by its task run, or says how it ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound, WaitOver
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.state import waits
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Transaction

_ENDED = """
SELECT t.status, t.error_code, t.finished_at,
    EXISTS (SELECT 1 FROM events AS e WHERE e.run_id = t.run_id AND e.task_run_id = t.id
        AND e.type = 'task_run.waiting') AS has_waited,
    (SELECT e.data FROM events AS e WHERE e.run_id = t.run_id AND e.task_run_id = t.id
        AND e.type = 'task_run.completed' ORDER BY e.seq DESC LIMIT 1) AS said
FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def find(tx: Transaction, tenant: str, task_run_id: UUID) -> Waiting:
    """The open wait of a task run.

    Raises:
        NotFound: the tenant has no such task run, or it never waited.
        WaitOver: it has ended; the error says how.
    """
    run_id = ids.run_id_of(task_run_id)
    for each in waits.find(tx, [(run_id, task_run_id)]):
        if each.wait.tenant == tenant and each.is_open:
            return each
    parameters = {"run_id": run_id, "id": task_run_id, "tenant": tenant}
    row: Any = tx.execute(_ENDED, parameters).one_or_none()
    shown = ids.show(ids.TASK_RUN, task_run_id)
    if row is None or not row.has_waited:
        raise NotFound(f"no wait of task run {shown} found", taskRunId=shown)
    raise over(shown, row)


def over(shown: str, row: Any) -> WaitOver:
    """The error that says how a wait ended.

    Args:
        shown: the id of its task run.
        row: `status`, `error_code`, `finished_at` and the data of its completion, `said`.
    """
    said = row.said or {}
    by, cause = said.get("by"), said.get("cause")
    how = f"it is {row.status}"
    how += f" ({cause or row.error_code})" if cause or row.error_code else ""
    how += f" by {by}" if by else ""
    return WaitOver(
        f"the wait of {shown} has ended: {how}",
        taskRunId=shown,
        taskRunStatus=row.status,
        cause=cause,
        errorCode=row.error_code,
        by=by,
        endedAt=iso(row.finished_at),
    )
