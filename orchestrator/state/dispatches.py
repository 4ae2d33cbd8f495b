"""Notes which dispatches services have taken: their attempts run there, and no longer in this worker.

No status changes: an attempt is running before its dispatch leaves. The guard names the process that
dispatched. A report may come before the answer to the dispatch does; then nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Dispatched
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.store.database import Transaction

_TAKEN = f"""
WITH taken AS (
    UPDATE task_runs AS t SET worker = n.service, dispatched_at = now(), heartbeat_at = now()
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[]), CAST(:services AS text[]))
        AS n(id, attempt, service)
    WHERE {by_key()} AND t.attempt = n.attempt AND {status_is(TaskStatus.RUNNING)} AND t.worker = :worker
    RETURNING t.run_id, t.id, t.attempt, t.worker
)
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT m.run_id, :now, 'task_run.dispatched', m.id, m.attempt, jsonb_build_object('worker', m.worker)
FROM taken AS m
"""


def taken(tx: Transaction, dispatches: Sequence[Dispatched]) -> None:
    """Note dispatches of one run that services have taken. Attempts that are over already are left alone."""
    if not dispatches:
        return
    dispatches = sorted(dispatches, key=lambda each: each.task_run.id)
    parameters = {
        "run_id": dispatches[0].task_run.run_id,
        "ids": [each.task_run.id for each in dispatches],
        "attempts": [each.task_run.attempt for each in dispatches],
        "services": [each.service for each in dispatches],
        "worker": dispatches[0].worker,
        "now": tx.now,
    }
    tx.execute(_TAKEN, parameters)
