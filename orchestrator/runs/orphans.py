"""Cancels task runs whose task was removed: on command, or by a new version of an HTTP service."""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.domain.states import ADVANCING_RUN, UNSTARTED_TASK, sql_in
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import run_headers, run_transitions
from pipeweave.orchestrator.store.database import Transaction

CODE = "TASK_REMOVED"
# Through the active runs, which are few, not through history. Those that wait for their turn see it then.
_RUNS = f"""
SELECT DISTINCT r.id FROM runs AS r JOIN task_runs AS t ON t.run_id = r.id
WHERE r.status IN {sql_in(ADVANCING_RUN)} AND r.tenant_id = :tenant
  AND t.task_id = ANY(CAST(:task_ids AS text[])) AND t.status IN {sql_in(UNSTARTED_TASK)}
ORDER BY r.id
"""


def cancel_unstarted(
    tx: Transaction, tenant: str, task_ids: Sequence[str], reason: str, touched: TouchedLimits
) -> int:
    """Cancel the task runs of these tasks that have not started. A run that needs one of them follows its
    failure mode.

    Args:
        touched: told the tasks whose limits the caller has to fill, after all runs.

    Returns:
        How many were cancelled.
    """
    count = 0
    for run_id in tx.execute(_RUNS, {"tenant": tenant, "task_ids": list(task_ids)}).scalars():
        run = run_headers.load(tx, run_id)
        if run is None:
            continue
        # Of two transactions that end the same run, the second one waits here with nothing in its hands.
        run_transitions.lock(tx, run_id)
        count += Advance(tx, run, touched=touched).cancel(task_ids, code=CODE, message=reason)
    return count
