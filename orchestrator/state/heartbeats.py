"""Stores the heartbeats and the progress of running attempts. Neither changes a status."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.store.database import Transaction

_PROGRESS = """
UPDATE task_runs SET progress = :progress, progress_message = :message, heartbeat_at = now()
WHERE run_id = :run_id AND id = :id AND attempt = :attempt AND status = 'running'
    AND (CAST(:worker AS text) IS NULL OR worker = :worker)
"""


def progress(tx: Transaction, task_run: TaskRun, percent: float, message: str | None) -> bool:
    """Store the progress of an attempt (0 to 100), also as a heartbeat. False when the attempt is fenced."""
    return progress_of(tx, task_run.id, task_run.attempt, percent, message, worker=task_run.worker)


def progress_of(
    tx: Transaction,
    task_run_id: UUID,
    attempt: int,
    percent: float,
    message: str | None,
    *,
    worker: str | None = None,
) -> bool:
    """As `progress`, of an attempt that is known by its ids.

    Args:
        worker: which must have it; None for any.
    """
    parameters = {
        "run_id": ids.run_id_of(task_run_id),
        "id": task_run_id,
        "attempt": attempt,
        "progress": percent,
        "message": message,
        "worker": worker,
    }
    return tx.execute(_PROGRESS, parameters).rowcount > 0


_HEARTBEAT = """
UPDATE task_runs SET heartbeat_at = now()
WHERE run_id = :run_id AND id = :id AND attempt = :attempt AND status = 'running'
    AND (CAST(:worker AS text) IS NULL OR worker = :worker)
"""


_HEARTBEATS = f"""
UPDATE task_runs AS t SET heartbeat_at = now()
FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[])) AS g(id, attempt)
WHERE {by_key("g.id")} AND t.attempt = g.attempt AND t.status = 'running'
    AND (CAST(:worker AS text) IS NULL OR t.worker = :worker)
RETURNING t.id
"""


def beat_together(tx: Transaction, task_runs: Sequence[TaskRun]) -> set[UUID]:
    """Store the heartbeats of several attempts of one run; the ids of those that are not fenced.

    It may deadlock with a cancel of the run: `Database.run` repeats it.
    """
    if not task_runs:
        return set()
    task_runs = sorted(task_runs, key=lambda each: each.id)
    parameters = {
        "run_id": task_runs[0].run_id,
        "ids": [each.id for each in task_runs],
        "attempts": [each.attempt for each in task_runs],
        # One process runs all of them.
        "worker": task_runs[0].worker,
    }
    return set(tx.execute(_HEARTBEATS, parameters).scalars())


# A row that another transaction holds is left to the next heartbeat, and keeps those of the others not back.
# Its commit does not wait for the disk, as that of a worker's heartbeat.
_OF_CLAIMS = """
UPDATE task_runs AS t SET heartbeat_at = now()
FROM (SELECT c.run_id, c.id
      FROM (SELECT set_config('synchronous_commit', 'off', true)) AS soon,
          unnest(CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[]), CAST(:attempts AS integer[]))
              AS n(run_id, id, attempt)
          JOIN task_runs AS c ON c.run_id = n.run_id AND c.id = n.id AND c.attempt = n.attempt
      WHERE c.status = 'running' AND c.dispatched_at IS NULL AND c.worker = :worker
      FOR NO KEY UPDATE OF c SKIP LOCKED) AS mine
WHERE t.run_id = mine.run_id AND t.id = mine.id
"""


def beat_claims(tx: Transaction, task_runs: Sequence[TaskRun], worker: str) -> None:
    """Store a heartbeat for what a process has claimed and is about to dispatch, of any runs.

    Args:
        worker: the name of its claims.
    """
    parameters = {
        "run_ids": [each.run_id for each in task_runs],
        "ids": [each.id for each in task_runs],
        "attempts": [each.attempt for each in task_runs],
        "worker": worker,
    }
    tx.execute(_OF_CLAIMS, parameters)


def beat(tx: Transaction, task_run: TaskRun) -> bool:
    """Store the heartbeat of an attempt. False when the attempt is fenced."""
    return beat_of(tx, task_run.id, task_run.attempt, worker=task_run.worker)


def beat_of(tx: Transaction, task_run_id: UUID, attempt: int, *, worker: str | None = None) -> bool:
    """As `beat`, of an attempt that is known by its ids.

    Args:
        worker: which must have it; None for any.
    """
    parameters = {
        "run_id": ids.run_id_of(task_run_id),
        "id": task_run_id,
        "attempt": attempt,
        "worker": worker,
    }
    return tx.execute(_HEARTBEAT, parameters).rowcount > 0
