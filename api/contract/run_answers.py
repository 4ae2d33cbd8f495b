"""Models of the answers that accept standalone tasks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel, TaskRunId
from pipeweave.orchestrator.domain import TaskStatus

AttemptStatus = Literal[
    "running", "waiting", "completed", "failed", "timeout", "cancelled", "lost", "interrupted"
]


class Queued(AnswerModel):
    """A standalone task run that was accepted."""

    run_id: TaskRunId = Field(description="The task run: see `/api/task-runs/{id}`.")
    status: TaskStatus
    task_id: str
    input_path: str | None
    created: bool = Field(description="false: it is an earlier task run with the same idempotency key.")


class QueueBatchAnswer(AnswerModel):
    """Standalone task runs that were accepted."""

    queued: int = Field(description="How many task runs are new.")
    results: list[Queued]
