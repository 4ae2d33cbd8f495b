"""Finds the pauses of runs, and moves what is queued in a paused run back to `ready`.

A pause is a row of `run_pauses`. Every statement that releases or claims a task run looks for it
(state/pause_sql.py), so nothing becomes queued after the pause but by a transaction that was open when it
began. `settled_at` marks a run of which nothing is queued any more: the tick passes over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.state import releasing
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# Task runs that one transaction moves at most, and how many transactions follow each other; the tick does the
# rest.
BATCH = limits.BATCH
BATCHES = 20
# Runs that one tick looks at; the next tick continues.
RUNS_PER_TICK = 100
# No transaction that was open when the run was paused is still open then.
SETTLED_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RunPause:
    """The pause of a run; `paused_by` is the name of a token, None if it is not known."""

    run_id: UUID
    paused_at: datetime
    paused_by: str | None
    reason: str | None


_FIND = """
SELECT p.run_id, p.paused_at, p.paused_by, p.reason FROM run_pauses AS p
WHERE p.run_id = ANY(CAST(:runs AS uuid[]))
"""


def find(tx: Transaction, run_ids: Iterable[UUID]) -> dict[UUID, RunPause]:
    """The pauses of those of these runs that are paused."""
    rows: list[Any] = list(tx.execute(_FIND, {"runs": list(run_ids)}))
    return {row.run_id: RunPause(row.run_id, row.paused_at, row.paused_by, row.reason) for row in rows}


_QUEUED = """
SELECT t.run_id, t.id FROM task_runs AS t WHERE t.run_id = :run_id AND t.status || '' = 'queued'
ORDER BY t.id LIMIT :batch FOR UPDATE SKIP LOCKED
"""


def take_back(tx: Transaction, run_id: UUID) -> int:
    """Move a batch of queued task runs of a paused run back to `ready`; returns how many."""
    rows = tx.execute(_QUEUED, {"run_id": run_id, "batch": BATCH}).all()
    return len(releasing.hold_back(tx, [(row.run_id, row.id) for row in rows]))


def take_back_all(tx: Transaction, run_id: UUID, batches: int = BATCHES) -> None:
    """As `take_back`, batch after batch, each in a transaction of its own."""
    if take_back(tx, run_id) == BATCH and batches > 1:
        tx.afterwards(lambda after: take_back_all(after, run_id, batches - 1))


# --- the tick ---------------------------------------------------------------------------------------------

_UNSETTLED = """
SELECT p.run_id FROM run_pauses AS p WHERE p.settled_at IS NULL ORDER BY p.paused_at LIMIT :most
"""
_SETTLE = """
UPDATE run_pauses SET settled_at = now()
WHERE run_id = :run_id AND paused_at < now() - CAST(:after AS interval)
"""

# SQL: whether `take_back_waiting` may have anything to do.
IS_DUE = "EXISTS (SELECT 1 FROM run_pauses AS p WHERE p.settled_at IS NULL)"


def take_back_waiting(database: Database) -> int:
    """Move what is still queued in paused runs back to `ready`; returns how many task runs.

    Raises:
        PartlyFailed: the task runs of some runs could not be moved; those of the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        run_ids = list(tx.execute(_UNSETTLED, {"most": RUNS_PER_TICK}).scalars())
    isolation = Isolation(database)
    moved = sum(
        isolation.run(
            lambda run_id=run_id: database.run(lambda tx: _settle(tx, run_id)),  # type: ignore[misc]
            run_id=run_id,
        )
        for run_id in run_ids
    )
    return isolation.finish(moved)


def _settle(tx: Transaction, run_id: UUID) -> int:
    moved = take_back(tx, run_id)
    if moved < BATCH:
        tx.execute(_SETTLE, {"run_id": run_id, "after": SETTLED_AFTER})
    return moved
