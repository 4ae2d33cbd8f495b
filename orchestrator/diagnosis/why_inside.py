"""Finds what holds up the child run that a step waits for: the task run of it that says most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.diagnosis.why_reasons import Reason
from pipeweave.orchestrator.domain.json_shapes import run_id
from pipeweave.orchestrator.store.database import Transaction

# What works or waits for something outside comes before what waits for other steps of the run.
_DECISIVE = """
SELECT t.id FROM waits AS w JOIN task_runs AS t ON t.run_id = CAST(w.data ->> 'run' AS uuid)
WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.kind = 'child' AND t.finished_at IS NULL
ORDER BY array_position(ARRAY['running', 'queued', 'ready', 'waiting'], CAST(t.status AS text)) NULLS LAST,
    t.due_at NULLS LAST, t.id
LIMIT 1
"""


def decisive(tx: Transaction, row: Any) -> UUID | None:
    """The task run of the child that holds up a waiting step; None if it waits for no child that has begun.

    Args:
        row: a row of why.py's query.
    """
    key = {"run_id": row.run_id, "id": row.id}
    task_run: UUID | None = tx.execute(_DECISIVE, key).scalar_one_or_none()
    return task_run


def told_of(inner: Any, reason: Reason) -> Reason:
    """A reason of a task run of the child, as the step that waits for the child tells it.

    Args:
        inner: the row of that task run.
    """
    shown = run_id(inner.run_id)
    text = f"step {inner.step_id!r} of run {shown}: {reason.text}"
    return replace(reason, text=text, numbers={**reason.numbers, "insideRunId": shown})
