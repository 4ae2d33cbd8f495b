"""Models of the answers about runs, task runs, events and the queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pipeweave.api.contract.answers import FailureMode
from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, Paged, Percent, RunId, TaskRunId
from pipeweave.orchestrator.domain import RunStatus, TaskStatus

Kind = Literal["task", "map", "item"]
TriggerKind = Literal["api", "schedule", "webhook", "event", "rerun", "redrive", "transaction", "parent"]


class Reference(AnswerModel):
    """Where a large value is in storage, its size and its hash."""

    path: str | None = Field(description="null: it is in its row; the answer has too many values to show it.")
    backend: str | None = Field(
        description="The id of its storage backend; null: the default, or it is in its row."
    )
    size: int = Field(description="Bytes of JSON.")
    hash: str


class MapReference(AnswerModel):
    """Replaces a map's output that is too large to show; its task runs of kind `item` have the parts."""

    items: int
    size: int = Field(description="Bytes of JSON.")


class TriggeredByAnswer(AnswerModel):
    """What began a run."""

    kind: TriggerKind
    id: str | None = Field(description="The schedule, webhook, run or dead letter; null for a request.")
    actor: str | None = Field(description="The name of the access token, if one is known.")


AttemptStatus = Literal[
    "running", "waiting", "completed", "failed", "timeout", "cancelled", "lost", "interrupted"
]

TraceId = Annotated[
    str,
    Field(
        pattern="^[0-9a-f]{32}$",
        description="The trace of the run: that of the trigger's `traceparent`, else the UUID of the run.",
    ),
]


class Run(AnswerModel):
    """One execution of a pipeline."""

    id: RunId
    tenant: str
    pipeline_id: str
    pipeline_version: int
    status: RunStatus
    failure_mode: FailureMode
    priority: int | None
    metadata: dict[str, Any] | None
    triggered_by: TriggeredByAnswer | None = Field(
        description="What began it; null for runs of earlier versions."
    )
    rerun_of: RunId | None = Field(description="The run that this one repeats.")
    rerun_from: str | None = Field(description="The step that the rerun began at; null: the beginning.")
    trace_id: TraceId
    task_run_count: int
    error: Any
    error_code: str | None
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    started_utc: AwareDatetime | None = Field(description="The same as `startedAt`.")
    ended_utc: AwareDatetime | None = Field(description="The same as `finishedAt`.")
    duration_ms: float | None
    paused_at: AwareDatetime | None = Field(
        description="When it was paused; null: it is not. A paused run without a run slot stays `pending`."
    )
    paused_by: str | None = Field(description="The name of the token that paused it.")
    pause_reason: str | None


class Scanned(Paged):
    """One page of a list that may have to look through rows."""

    scanned: int | None = Field(
        description="How many rows were looked at; null: an index gave the page, and no other row was."
    )
    scanned_to: AwareDatetime | None = Field(
        description="How far back the look came, if it ended before the page was full."
    )


class RunList(Scanned):
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
    error: Any = Field(description="Without its traceback; `GET /api/task-runs/{id}` shows that.")
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
    """Task runs of one run: steps in the order of the pipeline, then items of maps."""

    task_runs: list[TaskRun]


class FoundTaskRun(_TaskRun):
    """A task run that was looked for by its id. `runId` is null for a standalone task."""

    run_id: RunId | None


class FoundTaskRuns(Scanned):
    """Task runs, the newest run first."""

    task_runs: list[FoundTaskRun]


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


class StepProgress(AnswerModel):
    """The progress of one step. For a map, its items are counted; it is `failed` if an item of it ended the
    run, though its own task run was cancelled then.
    """

    id: str
    task_id: str
    task_run_id: TaskRunId
    kind: Literal["task", "map"]
    status: TaskStatus
    attempt: int = Field(description="The number of the latest attempt.")
    max_attempts: int
    progress: Percent | None
    progress_message: str | None
    done: int = Field(description="How many have ended, whatever their outcome.")
    completed: int
    failed: int
    cancelled: int
    skipped: int
    total: int = Field(description="1, or the number of items of a map; 0 until that is known.")
    code_version: int = Field(description="Of its task: the one that it ran last, or would run.")
    error_code: str | None
    due_at: AwareDatetime | None = Field(description="When the next attempt is due, while it waits for that.")
    started_at: AwareDatetime | None = Field(description="The start of the first attempt.")
    finished_at: AwareDatetime | None
    duration_ms: float | None = Field(description="Of all attempts, with the waiting between them.")


class RanBefore(AnswerModel):
    """A step that completed before steps ahead of it were repaired."""

    step_id: str
    repaired: list[str] = Field(
        description="Those steps, right ahead of it, whose new results it has not seen."
    )


class HookError(AnswerModel):
    """Why the last try of a hook failed."""

    code: str
    message: str


class HookFire(AnswerModel):
    """What a hook of a pipeline did after a run had ended."""

    id: str = Field(description="The same for each try of a call.")
    hook: Literal["onSuccess", "onPartial", "onFailure"]
    pipeline_id: str | None = Field(description="The pipeline that it starts.")
    url: str | None = Field(description="The URL that it calls.")
    outcome: Literal["waiting", "fired", "failed", "skipped"] = Field(
        description="`waiting`: it is tried at `dueAt`; `failed`: it is not tried again."
    )
    attempts: int = Field(description="Tries of a call.")
    reason: str | None = Field(description="Why it was skipped: `LOOP`.")
    error: HookError | None = Field(description="Of the last try.")
    run_id: RunId | None = Field(description="The run that it started.")
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    fired_at: AwareDatetime | None = Field(description="When it was over.")


class RunDetail(Run):
    """A run in full."""

    phase: str = Field(description="The status, or a finer word taken from the latest event.")
    input: Any
    input_ref: Reference | None
    inputs_hash: CodeHash
    counts: dict[str, int] = Field(description="Task runs by status.")
    steps: list[StepProgress] = Field(description="In the order of the pipeline.")
    task_runs: list[TaskRun] = Field(description="The first task runs, as many as `taskRuns` asked for.")
    task_runs_cursor: str | None = Field(
        description="Send it as `cursor` to `/task-runs` to get the next ones."
    )
    hooks: list[HookFire] = Field(description="What the pipeline's hooks did since the run ended.")
    ran_before: list[RanBefore] = Field(
        description="Steps that completed before a step right ahead of them was repaired by a retried dead"
        " letter: they have not seen its result. Run such steps again by a rerun from them."
    )
    output: Any = Field(
        description="What the pipeline returns (`output`), else the output of its end step, or of several end"
        " steps by step; null unless the run is `completed` or `partial`."
    )
    output_refs: dict[str, Reference | MapReference] = Field(
        description="By step, the outputs too large to show: what refers to them in `output` is null."
    )


class PausedRun(RunDetail):
    """A run after it was paused or resumed."""

    is_repeated: bool = Field(description="true: it was so before, and nothing was changed.")


class ChangedRuns(AnswerModel):
    """What an action did to the runs that match a filter."""

    matched: int = Field(description="Runs that match and that the action concerns, at most `limit`.")
    changed: int = Field(description="Those that it changed; 0 with `dryRun`.")
    runs: list[RunId] = Field(description="The first 20 of those that match, the oldest first.")
    is_dry_run: bool
    is_complete: bool = Field(description="false: more runs match; the same request goes on with them.")


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
    dispatched_at: AwareDatetime | None = Field(description="When an HTTP service took its dispatch.")
    logs_path: str | None = Field(
        description="Where its log is in storage, once it has written one; null: it has none."
    )


class AssetAnswer(AnswerModel):
    """A file that an attempt has stored beside its output."""

    path: str
    size: int | None = Field(description="Bytes.")
    type: str | None = Field(description="Its media type.")
    backend: str | None = Field(description="The id of its storage backend; null: the default.")


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
    code_changed: bool = Field(description="Whether the task's code changed since the task run was queued.")
    dispatched_at: AwareDatetime | None = Field(
        description="When an HTTP service took the dispatch of the present attempt."
    )
    heartbeat_at: AwareDatetime | None
    assets: dict[str, AssetAnswer] = Field(description="The files beside its output, by key.")
    logs_path: str | None = Field(
        description="Where the log of the present attempt is in storage, once it has written one; null: none."
    )
    idempotency_key: str | None
    cached_from: TaskRunId | None = Field(
        description="The task run whose result this one has: that with the same idempotency key, or in"
        " a rerun that of the run before."
    )
    awaits: TaskRunId | None = Field(
        description="The task run with the same idempotency key that this one waits for."
    )
    metadata: dict[str, Any] | None
    triggered_by: TriggeredByAnswer | None = Field(
        description="What began its run; null for runs of earlier versions."
    )
    trace_id: TraceId
    attempts: list[Attempt]


class RunEvent(AnswerModel):
    """One event of a run."""

    seq: int
    at: AwareDatetime
    type: str
    task_run_id: TaskRunId | None
    attempt: int | None
    actor: str | None = Field(
        description="Who wanted it (a token, a schedule), or the worker that did it; null: it follows from"
        " the events before it."
    )
    data: dict[str, Any] = Field(description="Its cause, where the type does not say it, and its results.")
    trace_id: TraceId


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


class Reason(BaseModel):
    """One reason why a task run does not run yet. Further members are the numbers in its text."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="A stable word for this kind of reason.")
    text: str


class WhyAnswer(AnswerModel):
    """The reasons why a task run does not run yet. `runId` is null for a standalone task."""

    task_run_id: TaskRunId
    run_id: RunId | None
    status: TaskStatus
    reasons: list[Reason] = Field(description="In the order in which they have to be resolved.")


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
    queue: str = Field(description="The full name of its queue.")
    progress: Percent | None
    progress_message: str | None
    worker: str | None
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    queued_at: AwareDatetime | None
    started_at: AwareDatetime | None
    wait_ms: float | None = Field(description="Milliseconds from queued to started, or until now.")
    reason: Reason | None = Field(
        None, description="With `reasons=true`: what it waits for first; null of one that runs."
    )


class QueueItemList(Paged):
    """Open task runs in the order in which they start."""

    items: list[QueueItem]
