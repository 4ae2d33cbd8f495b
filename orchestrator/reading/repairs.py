"""Finds the steps of a run that ran before a step ahead of them was repaired.

Under `partial-merge` a step runs although one ahead of it failed, and a map goes on with the items that it
has. A retried dead letter repairs what failed, but the steps behind it are over: they have not seen its
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.runs import RanBefore
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import ITEMS

# A map completes although items of it failed: it is as new as the last item that ended well.
_STEPS = f"""
SELECT t.id, t.step_id, t.status, t.attempt, t.started_at, t.finished_at,
       CASE WHEN t.status <> 'completed' OR t.attempt = 1 THEN NULL
            WHEN {kind_sql.IS_CALLED} THEN t.finished_at
            ELSE (SELECT max(i.finished_at) FROM task_runs AS i
                  WHERE i.run_id = t.run_id AND i.step_id = t.step_id AND {kind_sql.kind_in(ITEMS, "i")}
                    AND i.status = 'completed')
       END AS repaired_at
FROM task_runs AS t
WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP}
"""


def ran_before(tx: Transaction, id: UUID, plan: Plan) -> list[Document]:
    """The steps of a reopened run that ran before others were repaired.

    `repaired` has the steps right before it that ended well, or began anew, after it had begun.
    """
    rows = tx.execute(_STEPS, {"id": id, "last": ids.task_run_id(id, MAX_STEPS)})
    return of_steps(plan, {each.step_id: each for each in rows})


def of_steps(plan: Plan, rows: Mapping[str, Any]) -> list[Document]:
    """As `ran_before`, from the rows of the steps (pure)."""
    early_steps = []
    for step in (each.step for each in plan.steps):
        row = rows.get(step.id)
        if row is None or row.status != "completed" or row.started_at is None:
            continue
        repaired = [each for each in step.needs if _is_later(rows.get(each), row.started_at)]
        if repaired:
            early_steps.append(RanBefore.of(step_id=step.id, repaired=repaired))
    return early_steps


def _is_later(row: Any, began: datetime) -> bool:
    """Whether a step was reopened, and has ended well, or not yet, since the one behind it began."""
    if row is None or row.attempt == 1:
        return False
    return row.finished_at is None or (row.repaired_at is not None and row.repaired_at > began)
