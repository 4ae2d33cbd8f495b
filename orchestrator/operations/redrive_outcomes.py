"""Counts what became of the task runs that a redrive retried."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.deadletters.filters import OPEN
from pipeweave.orchestrator.domain.states import FINAL_TASK, TaskStatus
from pipeweave.orchestrator.operations.pace import Outcomes
from pipeweave.orchestrator.store.database import Transaction

# Outcomes are counted of so many retries, the newest: a redrive may have a hundred thousand of them.
MOST_COUNTED = 2_000

# A retry that failed has a new dead letter of the same task run, and only one of them can be open.
_COUNT = f"""
WITH retries AS MATERIALIZED (
    SELECT r.fingerprint, r.retry_run_id, r.retry_task_run_id FROM dead_letters AS r
    WHERE r.redrive_id = :id ORDER BY r.id DESC LIMIT :most
)
SELECT e.status, count(*) AS number, count(*) FILTER (WHERE EXISTS (
    SELECT 1 FROM dead_letters AS d WHERE d.task_run_id = r.retry_task_run_id AND {OPEN}
        AND d.fingerprint = r.fingerprint)) AS same
FROM retries AS r LEFT JOIN LATERAL (
    SELECT t.status FROM task_runs AS t
    WHERE t.run_id = r.retry_run_id AND t.id = r.retry_task_run_id) AS e ON true
GROUP BY e.status
"""
_FAILED = (TaskStatus.FAILED, TaskStatus.TIMEOUT)


def count(tx: Transaction, redrive_id: UUID) -> Outcomes:
    """The outcomes of the newest MOST_COUNTED retries of a redrive."""
    rows: list[Any] = list(tx.execute(_COUNT, {"id": redrive_id, "most": MOST_COUNTED}))
    # Without a status, the history of the retry is gone.
    numbers = {None if row.status is None else TaskStatus(row.status): row for row in rows}
    completed = sum(row.number for each, row in numbers.items() if each is TaskStatus.COMPLETED)
    failed = sum(row.number for each, row in numbers.items() if each in _FAILED)
    ended = sum(row.number for each, row in numbers.items() if each is None or each in FINAL_TASK)
    return Outcomes(
        completed=completed,
        failed_again=failed,
        same_again=sum(row.same for each, row in numbers.items() if each in _FAILED),
        ended_otherwise=ended - completed - failed,
        unended=sum(row.number for row in rows) - ended,
    )
