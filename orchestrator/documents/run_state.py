"""The document of the whole state of a run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.error_kinds import ErrorKind
from pipeweave.orchestrator.documents.base import AnswerModel, Percent, RunId, TaskRunId
from pipeweave.orchestrator.documents.parts import EditsAnswer, MapReference, Reference, TraceId, TriggerKind
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.waits import WaitKind
from pipeweave.spec import StepKind

Sha256 = str


class StateTrigger(AnswerModel):
    """What began the run, and with which input."""

    type: TriggerKind | None
    id: str | None
    actor: str | None
    payload: Any = Field(description="The input; null if it is by reference.")
    payload_ref: Reference | None
    timestamp: AwareDatetime


class StateError(AnswerModel):
    """An error, its message cut after 500 characters."""

    code: str
    type: str | None
    kind: ErrorKind | None = Field(description="null where nothing failed, as of a step that was skipped.")
    message: str | None
    retryable: bool | None
    timeout_ms: int | None = Field(description="The limit that was exceeded, if one was.")


class RunStateError(AnswerModel):
    """Why a run ended badly."""

    code: str
    message: str | None
    timeout_ms: int | None = Field(description="The limit that the run exceeded, if it did.")


class FailedTaskRun(AnswerModel):
    """A task run of which the last attempt failed."""

    step_id: str
    task_run_id: TaskRunId
    map_index: int | None
    attempt: int
    error: StateError | None
    handled: bool = Field(
        description="Whether it completed all the same: another run took care of the error."
    )
    at: AwareDatetime | None = Field(description="When it ended.")


class StateItems(AnswerModel):
    """The items of a map."""

    total: int
    counts: dict[str, int] = Field(description="Items by status.")
    failed: list[FailedTaskRun] = Field(description="The first ten that failed.")
    href: str = Field(description="All of them.")


class StepState(AnswerModel):
    """One step. Times and numbers of a map are those of its own task run."""

    step_id: str
    task_run_id: TaskRunId
    task_id: str
    kind: StepKind
    status: TaskStatus
    phase: Literal["pending", "running", "success", "failed", "retrying", "skipped", "cancelled"]
    attempts: int = Field(description="Attempts that began; 0 for one that took a result over.")
    max_attempts: int
    retry_count: int
    progress: Percent | None
    worker: str | None
    due_at: AwareDatetime | None = Field(description="When the next attempt is due, while it waits for that.")
    started_at: AwareDatetime | None = Field(description="The start of the first attempt.")
    completed_at: AwareDatetime | None
    duration_ms: float | None = Field(description="Of the last attempt.")
    result: Any = Field(description="The output, while the outputs before it are at most 2 MB together.")
    result_ref: Reference | MapReference | None = Field(description="Where any other output is.")
    selected_next: list[str] | None
    error: StateError | None
    inputs_hash: Sha256 | None
    outputs_hash: Sha256 | None
    cached_from: TaskRunId | None
    child_run_id: RunId | None = Field(
        description="Of a step that runs a pipeline: the run that it started last."
    )
    round: int | None = Field(description="Of a loop: the round that it is in, or ended with, from 1.")
    items: StateItems | None
    logs_ref: str
    metrics_ref: str


class StateMetadata(AnswerModel):
    """The times of a run, and what its trigger gave as metadata."""

    created_at: AwareDatetime
    started_at: AwareDatetime | None
    updated_at: AwareDatetime = Field(description="The time of the latest event.")
    completed_at: AwareDatetime | None
    duration_ms: float | None = Field(description="Until its end, or its latest event.")
    custom: dict[str, Any] | None


class RunMetrics(AnswerModel):
    """Numbers of a run."""

    total_duration_ms: float | None = Field(description="null while it is open.")
    step_count: int
    task_run_count: int
    step_durations: dict[str, float] = Field(description="By step (ms), of those that have ended.")
    retry_count: int = Field(description="Attempts beyond the first, of steps and items.")
    error_count: int = Field(description="Attempts that failed, timed out or were lost.")
    cache_hits: int = Field(description="Task runs that took over the result of another.")
    cache_misses: int = Field(description="Task runs with an idempotency key that had to run.")


class RunState(AnswerModel):
    """The whole state of a run, of one moment. Its size is bounded: a map is counts."""

    id: RunId
    tenant: str
    pipeline_id: str
    pipeline_version: int
    body: str | None = Field(description="The body of a step that it runs; null: the whole pipeline.")
    status: RunStatus
    phase: str
    trace_id: TraceId
    inputs_hash: Sha256
    edits: EditsAnswer | None
    trigger: StateTrigger
    variables: dict[str, Any] = Field(
        description="What params can refer to besides steps: the `input`, and the variables of the pipeline"
        " by name. Those over an input that is by reference are left out."
    )
    steps: dict[str, StepState] = Field(description="By step, in the order of the pipeline.")
    is_complete: bool = Field(description="false: the rows of some steps are no longer in the database.")
    error: RunStateError | None
    errors: list[FailedTaskRun] = Field(
        description="What failed for good, oldest first: steps, and the first ten items of each map; at most"
        " 100."
    )
    metadata: StateMetadata
    metrics: RunMetrics


_LETTERS = (
    "`p` pending, `r` ready, `q` queued, `R` running, `w` waiting, `c` completed, `f` failed, `t` timeout,"
    " `x` cancelled, `s` skipped"
)


class ItemCounts(AnswerModel):
    """The items of a map."""

    total: int
    statuses: dict[str, int] = Field(description="How many items have which status, by its letter.")


class StepWait(AnswerModel):
    """What a waiting step waits for, and until when."""

    kind: WaitKind
    until: AwareDatetime | None = Field(
        description="When a sleep ends, or when another wait ends if nothing comes; null for no end."
    )
    text: str | None = Field(
        description="Of a loop: `round 3 of at most 5`; while another run takes care of its error:"
        " `handles its error`."
    )


class StepStates(AnswerModel):
    """The states of a run's steps. The columns go with `ordinals`; times are ms from the run's start."""

    id: RunId
    status: RunStatus
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    cursor: str = Field(description="Send it as `after` to get what changes from now on.")
    is_whole: bool = Field(description="Whether all steps are here, and not only those that have changed.")
    ordinals: list[int] = Field(description="The first step of the pipeline has ordinal 1.")
    statuses: str = Field(description=f"One letter for each: {_LETTERS}.")
    attempts: list[int]
    queued_ms: list[int | None]
    started_ms: list[int | None] = Field(description="The start of the latest attempt.")
    finished_ms: list[int | None]
    code_versions: list[int] = Field(description="Of the task's code.")
    items: dict[str, ItemCounts] = Field(description="By the ordinal of a map; only those counted anew.")
    waits: dict[str, StepWait] = Field(
        description="By the ordinal of a step that waits; of those in `ordinals`."
    )
