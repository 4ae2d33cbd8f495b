"""Reads what a run does after its steps have ended: which part of its ending, and in which run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.runs import EndingAnswer
from pipeweave.orchestrator.domain.run_ending import step_of
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.state import run_endings
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

_CHILD = "SELECT r.status FROM runs AS r WHERE r.id = :id"


def of_run(tx: Transaction, id: UUID, status: str) -> Document | None:
    """The ending of a run; None of one that is not in its ending, and then no statement is sent.

    Args:
        status: of the run.
    """
    if status != RunStatus.ERROR_HANDLING:
        return None
    for each in run_endings.find(tx, [id]):
        child: Any = tx.execute(_CHILD, {"id": each.wait.child}).one_or_none()
        return EndingAnswer.of(
            part=each.part,
            step_id=step_of(each.part),
            run_id=each.wait.child,
            run_status=None if child is None else child.status,
            ends_as=each.ending.status,
            error=None if each.ending.error is None else dict(each.ending.error),
            parts=list(each.ending.parts),
            timeout_at=each.wait.timeout_at,
        )
    return None
