"""Read model of the hooks of a run: what each of them did after its end, or for its approvals."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.runs import HookError, HookFire
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

MOST = 100

# By the unique key, which begins with the run.
_HOOKS = """
SELECT f.id, f.hook, f.target_pipeline, f.url, f.outcome, f.attempts, f.reason, f.error_code, f.error,
    f.started_run_id, f.created_at, f.due_at, f.fired_at
FROM hook_fires AS f WHERE f.run_id = :run_id ORDER BY f.seq, f.hook, f.place LIMIT :most
"""


def of_run(tx: Transaction, id: UUID) -> list[Document]:
    """The hooks that fired for the ends and the approvals of a run, the oldest first."""
    return [_hook(each) for each in tx.execute(_HOOKS, {"run_id": id, "most": MOST})]


def _hook(row: Any) -> Document:
    error = None if row.error_code is None else HookError.of(code=row.error_code, message=row.error)
    return HookFire.of(
        row, id=str(row.id), pipeline_id=row.target_pipeline, run_id=row.started_run_id, error=error
    )
