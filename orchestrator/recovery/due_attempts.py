"""Releases attempts whose due time has come: a retry whose delay is over, or a delayed start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import deployment_mode, run_headers
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# One tick releases at most this many; the next tick goes on.
BATCH = 1_000
# Runs whose attempts are released in one transaction.
RUNS_PER_TRANSACTION = 50

# Tenants take turns, so that thousands of retries of one tenant do not keep another tenant's waiting.
_DUE = f"""
SELECT w.run_id, w.id FROM (
    SELECT o.run_id, o.id, o.due_at, {turn("o.tenant_id", "o.due_at")} AS turn
    FROM (SELECT t.run_id, t.id, t.tenant_id, t.due_at FROM task_runs AS t
          WHERE t.status = 'pending' AND t.due_at <= now() ORDER BY t.due_at LIMIT :window) AS o) AS w
ORDER BY w.turn, w.due_at LIMIT :batch
"""

# SQL: whether there is anything for this chore.
IS_DUE = "EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'pending' AND t.due_at <= now())"
# SQL: in how many seconds the next attempt may be released: 0 or less if one may be now, null if none may be
# soon. A look at an index that is nearly always empty.
DUE_IN_S = f"""(SELECT CAST(extract(epoch FROM t.due_at - now()) AS float8) FROM task_runs AS t
    WHERE {deployment_mode.MODE} <> '{deployment_mode.MAINTENANCE}'
      AND t.status = 'pending' AND t.due_at <= now() + interval '300 milliseconds'
    ORDER BY t.due_at LIMIT 1)"""


def run_once(deployment: Deployment) -> int:
    """Release what is due now. Returns the number of attempts.

    Raises:
        PartlyFailed: the attempts of some runs could not be released.
    """
    return release_due(deployment.database)


def release_due(database: Database) -> int:
    """Release due attempts: they become `queued`, or `ready` where a limit decides. Returns their number.

    Raises:
        PartlyFailed: the attempts of some runs could not be released; those of the other runs were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_DUE, {"window": 10 * BATCH, "batch": BATCH}))
    by_run: dict[UUID, list[UUID]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row.id)
    isolation = Isolation(database)

    def release(runs: Sequence[UUID]) -> int:
        return database.run(lambda tx: _release(tx, {run_id: by_run[run_id] for run_id in runs}))

    runs = sorted(by_run)
    starts = range(0, len(runs), RUNS_PER_TRANSACTION)
    done = sum(
        isolation.run_together(runs[start : start + RUNS_PER_TRANSACTION], release, "run_id")
        for start in starts
    )
    return isolation.finish(done)


def _release(tx: Transaction, by_run: dict[UUID, list[UUID]]) -> int:
    touched = TouchedLimits()
    for run_id, task_run_ids in by_run.items():
        run = run_headers.load(tx, run_id)
        if run is not None:
            Advance(tx, run, touched=touched).release_due(task_run_ids)
    # Once, after all runs: rows of limits are locked last.
    touched.fill(tx)
    return sum(len(task_run_ids) for task_run_ids in by_run.values())
