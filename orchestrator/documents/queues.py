"""Documents of queues and of what waits in them."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, Percent, RunId, TaskRunId
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


class StatusCount(AnswerModel):
    """The task runs of a tenant in one status."""

    count: int
    oldest: AwareDatetime | None = Field(
        description="When the oldest of them was queued last, or created if it never was; of ended ones, when"
        " it was created."
    )
    is_capped: bool = Field(description="Whether there may be more: only the newest were counted.")


class QueueStatus(AnswerModel):
    """Counts of the task runs of a tenant that wait, run and ended."""

    pending: int
    running: int
    waiting: int
    completed: int = Field(description="Completed task runs of runs created since `since`.")
    failed: int = Field(description="Failed and timed-out task runs of runs created since `since`.")
    dlq: int = Field(description="Open dead letters.")
    oldest_pending: AwareDatetime | None
    statuses: dict[TaskStatus, StatusCount] = Field(
        description="Every status by itself. `pending`: only task runs that wait for their due time; ended"
        " ones: of runs created since `since`, of the newest 10,000 runs and 100,000 task runs."
    )
    paused_at: AwareDatetime | None = Field(description="When the tenant was paused; null: it is not paused.")
    pause_reason: str | None
    paused_tasks: list[str] = Field(description="Tasks that are paused.")
    since: AwareDatetime


class SlotHolder(AnswerModel):
    """A run that holds slots of a task's limit."""

    run_id: RunId | None = Field(description="null for a standalone task.")
    task_run_id: TaskRunId | None = Field(description="Of a standalone task.")
    pipeline_id: str | None
    slots: int


class TaskLimit(AnswerModel):
    """The limits of a task, and how much of them is used."""

    task_id: str
    concurrency: int = Field(description="0: no limit.")
    live: int = Field(description="Slots in use; counted up to 10,000.")
    rate_limit: str | None
    held: int = Field(description="Task runs that wait for the limits or a pause; counted up to 10,000.")
    held_is_capped: bool
    oldest_held: AwareDatetime | None
    is_overridden: bool = Field(description="Whether an operator has set its limits.")
    is_paused: bool
    holders: list[SlotHolder] = Field(description="The runs that hold the most slots, at most 5.")


class Queue(AnswerModel):
    """A queue, with what waits in it and who serves it."""

    queue: str = Field(description="Its full name.")
    kind: Literal["tasks", "own", "dispatch", "parking"] = Field(
        description="`own`: of workers with the same code. `dispatch`: of HTTP services. `parking`: of task"
        " runs whose task no worker has loaded."
    )
    service_id: str | None
    name: str = Field(description="As users write it; of a `parking` queue, the task.")
    queued: int = Field(description="Counted up to 10,000.")
    is_capped: bool
    running: int
    oldest: AwareDatetime | None
    oldest_wait_ms: float | None
    workers: int = Field(description="Live ones that take work from it.")
    places: int = Field(description="Of these workers together; they may serve other queues, too.")
    busy: int | None = Field(description="Places in use, in whatever queue; null: nobody knows.")
    in_per_minute: float | None = Field(description="About so many come; null: too many to count.")
    out_per_minute: float = Field(description="Attempts that ended, on average of the last five minutes.")
    empty_in_ms: float | None = Field(description="If it goes on like this; null: never, or nobody knows.")


class QueueList(Paged):
    """Queues, the longest first."""

    queues: list[Queue]


class WaitingTask(AnswerModel):
    """What waits of one task in a queue."""

    task_id: str
    queued: int
    oldest: AwareDatetime


class WaitingPriority(AnswerModel):
    """What waits with one priority in a queue."""

    priority: int
    queued: int
    oldest: AwareDatetime


class QueueWorker(AnswerModel):
    """A live worker that serves a queue."""

    id: str
    name: str
    places: int
    busy: int | None = Field(description="Places in use, in whatever queue; null: nobody knows.")
    is_draining: bool
    heartbeat_at: AwareDatetime


class QueueDetail(Queue):
    """One queue: what waits in it, and who serves it."""

    tasks: list[WaitingTask] = Field(
        description="By task, of the first 10,000 in the queue; at most 20 tasks, those with most first."
    )
    priorities: list[WaitingPriority] = Field(description="By priority, what starts first is first.")
    served_by: list[QueueWorker] = Field(description="At most 100.")


class QueueLimits(AnswerModel):
    """The limit of active runs of a tenant, and how many are active."""

    max_active_runs: int | None = Field(description="null: there is no limit.")
    active_runs: int
    pending_runs: int = Field(description="Runs that wait for a run slot, in the order of their ids.")
    tasks: list[TaskLimit] = Field(
        description="Tasks with limits, at most 200; those that hold back the most come first."
    )
