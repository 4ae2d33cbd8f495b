"""Stores the heartbeats and the progress of running attempts. Neither changes a status."""

from __future__ import annotations

from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction

_PROGRESS = """
UPDATE task_runs SET progress = :progress, progress_message = :message, heartbeat_at = now()
WHERE run_id = :run_id AND id = :id AND attempt = :attempt AND status = 'running'
"""


def progress(tx: Transaction, task_run: TaskRun, percent: float, message: str | None) -> bool:
    """Store the progress of an attempt (0 to 100), also as a heartbeat. False when the attempt is fenced."""
    parameters = {
        "run_id": task_run.run_id,
        "id": task_run.id,
        "attempt": task_run.attempt,
        "progress": percent,
        "message": message,
    }
    return tx.execute(_PROGRESS, parameters).rowcount > 0


_HEARTBEAT = """
UPDATE task_runs SET heartbeat_at = now()
WHERE run_id = :run_id AND id = :id AND attempt = :attempt AND status = 'running'
"""


def beat(tx: Transaction, task_run: TaskRun) -> bool:
    """Store the heartbeat of an attempt. False when the attempt is fenced."""
    parameters = {"run_id": task_run.run_id, "id": task_run.id, "attempt": task_run.attempt}
    return tx.execute(_HEARTBEAT, parameters).rowcount > 0
