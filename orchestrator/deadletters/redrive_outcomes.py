"""Counts what became of the task runs that a redrive retried."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.deadletters.filters import OPEN
from pipeweave.orchestrator.deadletters.redrive_pace import Outcomes
from pipeweave.orchestrator.domain.states import FINAL_TASK, sql_in
from pipeweave.orchestrator.store.database import Transaction

# Outcomes are counted of so many retries, the newest: a redrive may have a hundred thousand of them.
MOST_COUNTED = 2_000

# A retry that failed has a new dead letter of the same task run, and only one of them can be open.
_COUNT = f"""
WITH retries AS MATERIALIZED (
    SELECT r.fingerprint, r.retry_run_id, r.retry_task_run_id FROM dead_letters AS r
    WHERE r.redrive_id = :id ORDER BY r.id DESC LIMIT :most
)
SELECT count(*) FILTER (WHERE e.status = 'completed') AS completed,
    count(*) FILTER (WHERE e.status IN ('failed', 'timeout')) AS failed_again,
    count(*) FILTER (WHERE e.status IN ('failed', 'timeout') AND EXISTS (
        SELECT 1 FROM dead_letters AS d WHERE d.task_run_id = r.retry_task_run_id AND {OPEN}
            AND d.fingerprint = r.fingerprint)) AS same_again,
    count(*) FILTER (WHERE e.status IN ('cancelled', 'skipped') OR e.status IS NULL) AS ended_otherwise,
    count(*) FILTER (WHERE e.status NOT IN {sql_in(FINAL_TASK)}) AS unended
FROM retries AS r LEFT JOIN LATERAL (
    SELECT t.status FROM task_runs AS t
    WHERE t.run_id = r.retry_run_id AND t.id = r.retry_task_run_id) AS e ON true
"""


def count(tx: Transaction, redrive_id: UUID) -> Outcomes:
    """The outcomes of the newest MOST_COUNTED retries of a redrive."""
    row: Any = tx.execute(_COUNT, {"id": redrive_id, "most": MOST_COUNTED}).one()
    return Outcomes(row.completed, row.failed_again, row.same_again, row.ended_otherwise, row.unended)
