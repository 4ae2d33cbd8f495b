"""Reads why the task runs of a run failed, for the error of the run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.states import TaskStatus, sql_in
from pipeweave.orchestrator.domain.step_failures import NAMED_CAUSES, Cause, Failures
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import rules

# The code of a map whose items failed: they are counted themselves.
MAP_ITEMS_FAILED = "MAP_ITEMS_FAILED"

_CAUSES = f"""
WITH causes AS (
    SELECT t.step_id, t.error_code, count(*) AS failed, (array_agg(t.id ORDER BY t.id))[1] AS first,
        sum(count(*)) OVER () AS all_failed,
        sum(count(*) FILTER (WHERE t.status = 'cancelled')) OVER () AS all_cancelled
    FROM task_runs AS t
    WHERE t.run_id = :run_id AND t.status IN {sql_in([TaskStatus(each) for each in rules.FAILED])}
        AND NOT ({kind_sql.HAS_ITEMS} AND t.error_code IS NOT DISTINCT FROM '{MAP_ITEMS_FAILED}')
    GROUP BY t.step_id, t.error_code ORDER BY failed DESC, first LIMIT {NAMED_CAUSES}
)
SELECT c.*, t.error ->> 'message' AS message FROM causes AS c
    JOIN task_runs AS t ON t.run_id = :run_id AND t.id = c.first
ORDER BY c.failed DESC, c.first
"""


def read(tx: Transaction, run_id: UUID, *, of: int) -> Failures | None:
    """What failed in a run; None when nothing did.

    Args:
        of: how many task runs the run has.
    """
    rows: list[Any] = list(tx.execute(_CAUSES, {"run_id": run_id}))
    if not rows:
        return None
    causes = [Cause(row.step_id, row.error_code, row.failed, row.first, row.message) for row in rows]
    return Failures(causes, int(rows[0].all_failed), int(rows[0].all_cancelled), of)
