"""Attempts whose due time has come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database, Transaction

# One look lets at most this many go; the next one goes on.
BATCH = 1_000
# Runs whose retries share a transaction.
RUNS_AT_ONCE = 50

# The tenants take turns, so that thousands of retries of one do not make those of another wait.
_DUE = """
SELECT w.run_id, w.id FROM (
    SELECT o.run_id, o.id, o.due_at, row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.due_at) AS turn
    FROM (SELECT t.run_id, t.id, t.tenant_id, t.due_at FROM task_runs AS t
          WHERE t.status = 'pending' AND t.due_at <= now() ORDER BY t.due_at LIMIT :window) AS o) AS w
ORDER BY w.turn, w.due_at LIMIT :batch
"""


def release(database: Database) -> int:
    """Let go what is due: `queued`, or `ready` where a limit decides. How many there were."""
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_DUE, {"window": 10 * BATCH, "batch": BATCH}))
    by_run: dict[UUID, list[UUID]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row.id)
    runs = sorted(by_run)
    for start in range(0, len(runs), RUNS_AT_ONCE):
        mine = {each: by_run[each] for each in runs[start : start + RUNS_AT_ONCE]}
        database.run(lambda tx, mine=mine: _release(tx, mine))  # type: ignore[misc]
    return len(rows)


def _release(tx: Transaction, by_run: dict[UUID, list[UUID]]) -> None:
    touched = TouchedLimits()
    for run_id, task_run_ids in by_run.items():
        run = run_headers.load(tx, run_id)
        if run is not None:
            Advance(tx, run, touched=touched).release_due(task_run_ids)
    # Once, after all runs: rows of limits are locked last.
    touched.fill(tx)
