"""Documents of task runs and of their attempts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, Paged, Percent, RunId, TaskRunId
from pipeweave.orchestrator.documents.parts import (
    MapReference,
    Reference,
    Scanned,
    TraceId,
    TriggeredByAnswer,
)
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.spec import TaskRunKind


class _TaskRun(AnswerModel):
    id: TaskRunId
    step_id: str
    task_id: str
    kind: TaskRunKind
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


class MapItem(TaskRun):
    """One item of a map."""

    child_run_id: RunId | None = Field(description="Of a map of pipelines: the run that it started last.")


class TaskRunList(Paged):
    """Task runs of one run: steps in the order of the pipeline, then items of maps."""

    task_runs: list[TaskRun]


class FoundTaskRun(_TaskRun):
    """A task run that was looked for by its id. `runId` is null for a standalone task."""

    run_id: RunId | None


class FoundTaskRuns(Scanned):
    """Task runs, the newest run first."""

    task_runs: list[FoundTaskRun]


class KeptAttempt(AnswerModel):
    """An attempt as its row has it."""

    number: int
    status: str
    worker: str | None
    code_version: int
    error: Any
    error_code: str | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class Attempt(KeptAttempt):
    """One attempt of a task run."""

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
    sha256: str | None = Field(
        description="The SHA-256 of its content, as we have read it; null: an earlier version stored it."
    )


class TaskRunDetail(_TaskRun):
    """A task run in full. `runId` and `pipelineId` are null for a standalone task."""

    run_id: RunId | None
    child_run_id: RunId | None = Field(
        description="The run that it started last: where it runs a pipeline or steps of its own, or where"
        " another run takes care of its error."
    )
    round: int | None = Field(description="Of a loop: the round that it is in, or ended with, from 1.")
    pipeline_id: str | None
    pipeline_version: int | None
    input_source: Literal["run", "params"]
    input: Any
    input_ref: Reference | None
    params: dict[str, Any] | None
    is_edited: bool = Field(description="Whether `params` hold for this run alone: its version has others.")
    has_other_input: bool = Field(
        description="Whether it was reused and has read the input of a run before, which is not `input`."
    )
    item: Any
    output: Any
    output_ref: Reference | MapReference | None
    selected_next: list[str] | None
    code_hash: Annotated[str, Field(pattern="^([0-9a-f]{16,64}|engine)$")] = Field(
        description="`engine`: the engine decides the step, which has no task."
    )
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


class RunAttempt(Attempt):
    """One attempt of a task run of a run. Its error is without its traceback."""

    task_run_id: TaskRunId
    step_id: str
    task_id: str
    map_index: int | None


class AttemptList(Paged):
    """The attempts of a run that began, in the order of its task runs, then by their number."""

    attempts: list[RunAttempt]
