"""Reads what a run does, or did, after its steps have ended: the parts of its ending, and their runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.runs import EndingAnswer, EndingPart
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run_ending import RunEnding, call_of, place_of, step_of
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.state import run_endings
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import Body

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


# The newest: a run that was reopened may have had another ending before.
_CHILDREN = """
SELECT r.id, r.status, r.body, r.pipeline_id FROM runs AS r
WHERE r.parent_task_run_id = :id AND r.id > :id ORDER BY r.id DESC LIMIT :most
"""


def parts(tx: Transaction, id: UUID, plan: Plan, ending: RunEnding) -> list[Document]:
    """The parts of the ending of a run in their order, each with the run that does it, or did."""
    children: list[Any] = list(tx.execute(_CHILDREN, {"id": id, "most": len(ending.parts)}))
    shown: list[Document] = []
    for part in reversed(ending.parts):
        at = next((at for at, each in enumerate(children) if _runs(each, plan, part)), None)
        child = None if at is None else children[at]
        children = children if at is None else children[at + 1 :]
        shown.append(
            EndingPart.of(
                part=part,
                step_id=step_of(part),
                run_id=child and child.id,
                run_status=child and child.status,
            )
        )
    return shown[::-1]


def _runs(child: Any, plan: Plan, part: str) -> bool:
    """Whether a child run runs what a part does. A part that could not start has none."""
    runs = call_of(plan, part).runs
    if isinstance(runs, Body):
        return bool(child.body == place_of(part))
    return child.body is None and bool(child.pipeline_id == runs.id)
