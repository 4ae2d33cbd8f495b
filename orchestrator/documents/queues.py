"""Documents of queues and of what waits in them."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pipeweave.orchestrator.documents.base import (
    AnswerModel,
    Paged,
    Percent,
    RunId,
    TaskRunId,
)
from pipeweave.orchestrator.domain import TaskStatus


class Reason(BaseModel):
    """One reason why a task run does not run yet. Further members are the numbers in its text."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="A stable word for this kind of reason.")
    text: str


class ListedItem(AnswerModel):
    """An open task run without its reason."""

    id: TaskRunId
    run_id: RunId | None
    pipeline_id: str | None
    step_id: str
    task_id: str
    map_index: int | None
    status: TaskStatus
    attempt: int
    max_attempts: int
    priority: int
    queue: str = Field(description="The full name of its queue.")
    progress: Percent | None
    progress_message: str | None
    worker: str | None
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    queued_at: AwareDatetime | None
    started_at: AwareDatetime | None
    wait_ms: float | None = Field(description="Milliseconds from queued to started, or until now.")


class QueueItem(ListedItem):
    """An open task run. `runId` and `pipelineId` are null for a standalone task."""

    reason: Reason | None = Field(
        None, description="With `reasons=true`: what it waits for first; null of one that runs."
    )


class QueueItemList(Paged):
    """Open task runs in the order in which they start."""

    items: list[QueueItem]
