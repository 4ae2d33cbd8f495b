"""Stores the heartbeats and the progress of running attempts. Neither changes a status."""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Transaction

_PROGRESS = """
UPDATE task_runs SET progress = :progress, progress_message = :message, heartbeat_at = now()
WHERE run_id = :run_id AND id = :id AND attempt = :attempt AND status = 'running'
"""


def progress(tx: Transaction, task_run: TaskRun, percent: float, message: str | None) -> bool:
    """Store the progress of an attempt (0 to 100), also as a heartbeat. False when the attempt is fenced."""
    return progress_of(tx, task_run.id, task_run.attempt, percent, message)


def progress_of(
    tx: Transaction, task_run_id: UUID, attempt: int, percent: float, message: str | None
) -> bool:
    """As `progress`, of an attempt that is known by its ids."""
    parameters = {
        "run_id": ids.run_id_of(task_run_id),
        "id": task_run_id,
        "attempt": attempt,
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
    return beat_of(tx, task_run.id, task_run.attempt)


def beat_of(tx: Transaction, task_run_id: UUID, attempt: int) -> bool:
    """As `beat`, of an attempt that is known by its ids."""
    parameters = {"run_id": ids.run_id_of(task_run_id), "id": task_run_id, "attempt": attempt}
    return tx.execute(_HEARTBEAT, parameters).rowcount > 0
