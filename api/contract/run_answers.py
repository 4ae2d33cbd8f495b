"""What is answered about runs, task runs, events and the queue."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pipeweave.api.contract.answers import (
    AnswerModel,
    CodeHash,
    FailureMode,
    Paged,
    Percent,
    RunId,
    TaskRunId,
)
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus

Kind = Literal["task", "map", "item"]


class Reference(AnswerModel):
    """Where a large value lies."""

    path: str
    size: int = Field(description="Bytes of JSON.")
    hash: str


class MapReference(AnswerModel):
    """A map's output that is too large to show: the items are its task runs of kind item."""

    items: int
    size: int = Field(description="Bytes of JSON.")


class Run(AnswerModel):
    """One execution of a pipeline."""

    id: RunId
    pipeline_id: str
    pipeline_version: int
    status: RunStatus
    failure_mode: FailureMode
    priority: int | None
    metadata: dict[str, Any] | None
    task_run_count: int
    error: Any
    error_code: str | None
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class RunList(Paged):
    """Runs, newest first."""

    runs: list[Run]


class _TaskRun(AnswerModel):
    id: TaskRunId
    step_id: str
    task_id: str
    kind: Kind
    map_index: int | None
    map_count: int | None
    status: TaskStatus
    attempt: int
    max_attempts: int
    priority: int
    progress: Percent | None
    progress_message: str | None
    worker: str | None
    code_version: int
    output_size: int | None
    error: Any = Field(description="Without its traceback; the task run itself shows that.")
    error_code: str | None
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    queued_at: AwareDatetime | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class TaskRun(_TaskRun):
    """One step of one run, or one item of a map."""

    run_id: RunId


class TaskRunList(Paged):
    """Task runs of one run: steps in the order of the pipeline, then the items of maps."""

    task_runs: list[TaskRun]


class StepProgress(AnswerModel):
    """How far one step is. Of a map, its items are counted."""

    id: str
    task_id: str
    task_run_id: TaskRunId
    kind: Literal["task", "map"]
    status: TaskStatus
    done: int = Field(description="Ended, well or badly.")
    failed: int
    total: int = Field(description="1, or the items of a map; 0 before they are known.")
    error_code: str | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class RunDetail(Run):
    """A run in full."""

    phase: str = Field(description="The status, or more finely what the latest event says.")
    input: Any
    input_ref: Reference | None
    inputs_hash: CodeHash
    counts: dict[str, int] = Field(description="Task runs by status.")
    steps: list[StepProgress] = Field(description="In the order of the pipeline.")
    task_runs: list[TaskRun] = Field(description="The first 1,000.")
    task_runs_cursor: str | None = Field(description="`cursor` of `/task-runs` for those that follow.")
    output: dict[str, Any] | None = Field(description="Of the end steps that completed, by step.")
    output_refs: dict[str, Reference | MapReference] = Field(description="Those too large to show.")


class Attempt(AnswerModel):
    """One attempt of a task run."""

    number: int
    status: str
    worker: str | None
    code_version: int
    error: Any
    error_code: str | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class TaskRunDetail(_TaskRun):
    """A task run in full. `runId` and `pipelineId` are null for a standalone task."""

    run_id: RunId | None
    pipeline_id: str | None
    pipeline_version: int | None
    input_source: Literal["run", "params"]
    input: Any
    input_ref: Reference | None
    params: dict[str, Any] | None
    item: Any
    output: Any
    output_ref: Reference | MapReference | None
    selected_next: list[str] | None
    code_hash: CodeHash
    current_code_version: int | None
    current_code_hash: CodeHash | None
    code_changed: bool = Field(description="Whether the task's code changed since this was queued.")
    heartbeat_at: AwareDatetime | None
    idempotency_key: str | None
    cached_from: TaskRunId | None = Field(
        description="The task run whose result it took, under the same idempotency key."
    )
    awaits: TaskRunId | None = Field(
        description="The task run that executes under the same idempotency key, while it waits for that."
    )
    metadata: dict[str, Any] | None
    attempts: list[Attempt]


class RunEvent(AnswerModel):
    """Something that happened."""

    seq: int
    at: AwareDatetime
    type: str
    task_run_id: TaskRunId | None
    attempt: int | None
    data: dict[str, Any]


class EventList(Paged):
    """A run's events, oldest first."""

    events: list[RunEvent]


# --- the queue --------------------------------------------------------------------------------------------


class Queued(AnswerModel):
    """A standalone task run that was accepted."""

    run_id: TaskRunId = Field(description="The task run: see `/api/task-runs/{id}`.")
    status: TaskStatus
    task_id: str
    input_path: str | None
    created: bool = Field(description="False: it is the task run that had the idempotency key before.")


class QueueBatchAnswer(AnswerModel):
    """Standalone task runs that were accepted."""

    queued: int = Field(description="How many of them are new.")
    results: list[Queued]


class QueueStatus(AnswerModel):
    """How much is waiting."""

    pending: int
    running: int
    waiting: int
    completed: int = Field(description="Since `since`.")
    failed: int = Field(description="Since `since`.")
    dlq: int = Field(description="Open dead letters.")
    oldest_pending: AwareDatetime | None
    paused_at: AwareDatetime | None = Field(description="Since when nothing of the tenant starts.")
    pause_reason: str | None
    paused_tasks: list[str] = Field(description="Tasks that are paused themselves.")
    since: AwareDatetime


class QueueLimits(AnswerModel):
    """How many runs of the tenant may be active, and how many are."""

    max_active_runs: int | None = Field(description="null: there is no limit.")
    active_runs: int
    pending_runs: int = Field(description="Wait for their turn, in the order of their ids.")


class Reason(BaseModel):
    """Something that has to happen before a task run runs. Further members are the numbers of its text."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="A stable word for this kind of reason.")
    text: str


class WhyAnswer(AnswerModel):
    """Why a task run does not run yet. `runId` is null for a standalone task."""

    task_run_id: TaskRunId
    run_id: RunId | None
    status: TaskStatus
    reasons: list[Reason] = Field(description="In the order in which they must go away.")


class QueueItem(AnswerModel):
    """An open task run. `runId` and `pipelineId` are null for a standalone task."""

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
    progress: Percent | None
    progress_message: str | None
    worker: str | None
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    queued_at: AwareDatetime | None
    started_at: AwareDatetime | None
    wait_ms: float | None = Field(description="From queued to started, or until now.")


class QueueItemList(Paged):
    """Open task runs in the order in which they go."""

    items: list[QueueItem]
