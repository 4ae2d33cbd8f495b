"""Reads the checkpoints of a run: those events after which it stood still, as a page of its event log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.checkpoints import Checkpoint
from pipeweave.orchestrator.domain.checkpoints import CHECKPOINTS, checkpoint_href
from pipeweave.orchestrator.domain.json_shapes import run_id
from pipeweave.orchestrator.reading.run_events import events_of_types
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest


def checkpoints(tx: Transaction, tenant: str, id: UUID, page: PageRequest) -> Document:
    """The checkpoints of a run, oldest first: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such run.
    """
    return events_of_types(tx, tenant, id, page, CHECKPOINTS, lambda row: checkpoint_row(id, row))


_ONE = """
SELECT e.seq, e.at, e.type, e.task_run_id, e.attempt FROM events AS e
WHERE e.run_id = :id AND e.seq = :seq AND e.type = ANY(CAST(:types AS text[]))
"""


def checkpoint(tx: Transaction, tenant: str, id: UUID, seq: int) -> Document:
    """One checkpoint of a run, without its state.

    Raises:
        NotFound: the tenant has no such run, or it no such checkpoint.
    """
    require_run(tx, tenant, id)
    parameters = {"id": id, "seq": seq, "types": sorted(CHECKPOINTS)}
    row: Any = tx.execute(_ONE, parameters).one_or_none()
    if row is None:
        raise NotFound(
            f"run {run_id(id)} has no checkpoint {seq}",
            hint="GET /api/runs/{id}/checkpoints lists them; GET /api/runs/{id}/at takes any event",
        )
    return checkpoint_row(id, row)


def checkpoint_row(run: UUID, row: Any) -> Document:
    """A checkpoint as the row of its event has it."""
    return Checkpoint.of(
        row,
        checkpoint_id=str(row.seq),
        run_id=run,
        created_at=row.at,
        event=row.type,
        href=checkpoint_href(run, row.seq),
    )
