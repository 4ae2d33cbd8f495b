"""Models of the answers about runs, task runs, events and the queue."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TaskRunId
from pipeweave.orchestrator.documents.queues import Reason
from pipeweave.orchestrator.domain import TaskStatus

AttemptStatus = Literal[
    "running", "waiting", "completed", "failed", "timeout", "cancelled", "lost", "interrupted"
]


class SearchHit(AnswerModel):
    """One thing that was found."""

    kind: Literal[
        "run",
        "taskRun",
        "deadLetter",
        "redrive",
        "pipeline",
        "task",
        "schedule",
        "trigger",
        "service",
    ]
    id: str
    name: str | None = Field(
        description="Of a run its pipeline, of a task run its step, of a dead letter its task; else a"
        " description."
    )
    status: str | None = Field(description="null for what has no status.")


class SearchAnswer(AnswerModel):
    """What was found: ids first, then names."""

    hits: list[SearchHit]


class ChangedRuns(AnswerModel):
    """What an action did to the runs that match a filter."""

    matched: int = Field(description="Runs that match and that the action concerns, at most `limit`.")
    changed: int = Field(description="Those that it changed; 0 with `dryRun`.")
    runs: list[RunId] = Field(description="The first 20 of those that match, the oldest first.")
    is_dry_run: bool
    is_complete: bool = Field(description="false: more runs match; the same request goes on with them.")


# --- the queue --------------------------------------------------------------------------------------------


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


class WhyAnswer(AnswerModel):
    """The reasons why a task run does not run yet. `runId` is null for a standalone task."""

    task_run_id: TaskRunId
    run_id: RunId | None
    status: TaskStatus
    reasons: list[Reason] = Field(description="In the order in which they have to be resolved.")
