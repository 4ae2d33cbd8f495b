"""Documents of the maintenance mode."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId


class MaintenanceMode(AnswerModel):
    """The maintenance mode."""

    mode: Literal["running", "waiting_for_maintenance", "maintenance"]
    mode_changed_at: AwareDatetime
    reason: str | None
    message: str


class Maintenance(MaintenanceMode):
    """The maintenance mode, and how much work is open in all tenants."""

    can_enter_maintenance: bool
    pending_tasks: int = Field(
        description="Task runs that wait for a worker, a limit, their next attempt or something external."
    )
    running_tasks: int = Field(description="Task runs that a worker has claimed.")


class OpenTaskRuns(AnswerModel):
    """Counts the unfinished task runs of an open run, by status."""

    running: int
    queued: int
    ready: int
    waiting: int
    pending: int


class BlockingRun(AnswerModel):
    """An open run for which maintenance waits."""

    id: RunId | TaskRunId = Field(
        description="The id to cancel: the run, or the task run of a standalone task."
    )
    tenant: str
    pipeline_id: str | None = Field(description="null for a standalone task.")
    task_id: str | None = Field(description="The task of a standalone task; null for a run of a pipeline.")
    status: Literal["pending", "running", "paused", "error_handling"]
    created_at: AwareDatetime
    age: float = Field(description="Seconds since it was created.")
    task_runs: OpenTaskRuns


class MaintenanceState(Maintenance):
    """The maintenance mode and the open runs."""

    blocking: list[BlockingRun] = Field(description="The oldest 20 open runs of all tenants.")
    blocking_total: int
    empty_in_ms: float | None = Field(
        description="About when the last of them ends, if it goes on as in the last minute; null: nobody "
        "knows, because nothing ended or a run is paused."
    )
