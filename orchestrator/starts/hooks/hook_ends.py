"""Ends the fires of hooks: each is one guarded UPDATE."""

from __future__ import annotations

from uuid import UUID

from pipeweave.orchestrator.starts.triggers.starting import MAX_ERROR_CHARS
from pipeweave.orchestrator.store.database import Transaction

# Only the try that was claimed last may end a call: an earlier one may answer late.
_END = """
UPDATE hook_fires SET outcome = :outcome, error_code = :code, error = :error, started_run_id = :run_id,
    due_at = NULL, fired_at = :now
WHERE id = :id AND due_at IS NOT NULL AND (CAST(:attempts AS integer) IS NULL OR attempts = :attempts)
"""


def end(
    tx: Transaction,
    id: UUID,
    outcome: str,
    *,
    attempts: int | None = None,
    run_id: UUID | None = None,
    code: str | None = None,
    error: str | None = None,
) -> bool:
    """End a fire.

    Args:
        attempts: of a call: the number of the try that ends it.
    """
    parameters = {
        "id": id,
        "outcome": outcome,
        "attempts": attempts,
        "run_id": run_id,
        "code": code,
        "error": None if error is None else error[:MAX_ERROR_CHARS],
        "now": tx.now,
    }
    return bool(tx.execute(_END, parameters).rowcount)


_NOTE = """
UPDATE hook_fires SET error_code = :code, error = :error
WHERE id = :id AND due_at IS NOT NULL AND attempts = :attempts
"""


def note_failure(tx: Transaction, id: UUID, attempts: int, code: str, error: str) -> None:
    """Note why a try of a call failed; it is tried again when it is due."""
    tx.execute(_NOTE, {"id": id, "attempts": attempts, "code": code, "error": error[:MAX_ERROR_CHARS]})
