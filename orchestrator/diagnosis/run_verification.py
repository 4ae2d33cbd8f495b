"""Verifies one run for a request: it is rebuilt from its events and compared with its rows, within bounds."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.documents.run_questions import RunVerification, VerifyDifference
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# What one request compares; `pipeweave verify` has no such bounds.
MOST_EVENTS = 20_000
MOST_TASK_RUNS = 100_000

_SIZE = """
SELECT r.task_run_count,
    (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.run_id = r.id LIMIT :most) AS e) AS events
FROM runs AS r WHERE r.id = :id
"""


def verified(tx: Transaction, tenant: str, id: UUID) -> Document:
    """Compare a run's rows with what its events imply.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot, so an open run agrees, too.

    Raises:
        NotFound: the tenant has no such run.
        LimitExceeded: it has too many events or task runs for a request.
    """
    _become_snapshot(tx)
    require_run(tx, tenant, id)
    return _compared(tx, id)


def verified_of_any(tx: Transaction, id: UUID) -> Document:
    """As `verified`, whosever run it is; also that of a standalone task."""
    _become_snapshot(tx)
    return _compared(tx, id)


def _become_snapshot(tx: Transaction) -> None:
    tx.hold()
    tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _compared(tx: Transaction, id: UUID) -> Document:
    size: Any = tx.execute(_SIZE, {"id": id, "most": MOST_EVENTS + 1}).one_or_none()
    if size is None:
        raise NotFound(f"run {ids.show(ids.RUN, id)} not found")
    _require_small(id, size)
    differences = verify.run(tx, id)
    return RunVerification.of(
        run_id=id,
        is_equal=not differences,
        differences=[VerifyDifference.of(each) for each in differences],
        is_complete=len(differences) < verify.MOST_PER_RUN,
        events=size.events,
        task_runs=size.task_run_count,
        verified_at=tx.now,
    )


def _require_small(id: UUID, size: Any) -> None:
    limits = (
        ("events", size.events, MOST_EVENTS),
        ("task runs", size.task_run_count, MOST_TASK_RUNS),
    )
    for what, number, most in limits:
        if number > most:
            raise LimitExceeded(
                f"the run has more than {most:,} {what}",
                hint=f"`pipeweave verify {ids.show(ids.RUN, id)}` has no such limit",
            )
