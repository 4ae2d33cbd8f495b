"""Documents of runs: of lists, of one run with its steps and hooks, and of its events."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import (
    AnswerModel,
    CodeHash,
    FailureMode,
    Paged,
    Percent,
    RunId,
    TaskRunId,
)
from pipeweave.orchestrator.documents.parts import (
    EditsAnswer,
    MapReference,
    Reference,
    Scanned,
    TraceId,
    TriggeredByAnswer,
)
from pipeweave.orchestrator.documents.task_runs import TaskRun
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.spec import StepKind


class KeptRun(AnswerModel):
    """A run as its row has it. That of a standalone task has no pipeline."""

    id: RunId
    tenant: str
    pipeline_id: str | None
    pipeline_version: int | None
    status: RunStatus
    failure_mode: FailureMode
    priority: int | None
    metadata: dict[str, Any] | None
    triggered_by: TriggeredByAnswer | None = Field(
        description="What began it; null for runs of earlier versions."
    )
    rerun_of: RunId | None = Field(description="The run that this one repeats.")
    rerun_from: str | None = Field(description="The step that the rerun began at; null: the beginning.")
    parent_run_id: RunId | None = Field(description="The run that it belongs to; null for most.")
    root_run_id: RunId | None = Field(description="The first run above it; null without a parent.")
    depth: int = Field(description="How many runs are above it.")
    body: str | None = Field(
        description="The body of a step that it runs, such as `review.loop`; null: the whole pipeline."
    )
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


class Run(KeptRun):
    """One execution of a pipeline."""

    pipeline_id: str
    pipeline_version: int
    paused_at: AwareDatetime | None = Field(
        description="When it was paused; null: it is not. A paused run without a run slot stays `pending`."
    )
    paused_by: str | None = Field(description="The name of the token that paused it.")
    pause_reason: str | None


class RunList(Scanned):
    """Runs, newest first."""

    runs: list[Run]


class RunCounts(AnswerModel):
    """How many runs have each status, counted in the newest ones."""

    counts: dict[RunStatus, int] = Field(description="Statuses that no run has are 0.")
    at_least: list[RunStatus] = Field(description="Of these there may be more than were counted.")


class ChildRunList(Paged):
    """Child runs of a run, newest first."""

    runs: list[Run]


class StepProgress(AnswerModel):
    """The progress of one step. For a map, its items are counted; it is `failed` if an item of it ended the
    run, though its own task run was cancelled then.
    """

    id: str
    task_id: str
    task_run_id: TaskRunId
    kind: StepKind
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
    duration_ms: float | None = Field(
        description="Of all attempts, with the waiting between them, without `overMs`."
    )
    over_ms: float = Field(
        description="For how long its run was over meanwhile, before a retried dead letter reopened it."
    )
    child_run_id: RunId | None = Field(
        description="The run that it started last: of a step that runs a pipeline or steps of its own, or of"
        " one whose error another run takes care of. Those of a map are at its items."
    )
    round: int | None = Field(description="Of a loop: the round that it is in, or ended with, from 1.")


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
    """What a hook of a pipeline did after a run had ended, or an approval had begun to wait."""

    id: str = Field(description="The same for each try of a call.")
    hook: Literal["onSuccess", "onPartial", "onFailure", "onWaiting"]
    pipeline_id: str | None = Field(description="The pipeline that it starts.")
    url: str | None = Field(description="The URL that it calls.")
    outcome: Literal["waiting", "fired", "failed", "skipped"] = Field(
        description="`waiting`: it is tried at `dueAt`; `failed`: it is not tried again."
    )
    attempts: int = Field(description="Tries of a call.")
    reason: str | None = Field(description="Why it was skipped: `LOOP`, or `over`.")
    error: HookError | None = Field(description="Of the last try.")
    run_id: RunId | None = Field(description="The run that it started.")
    created_at: AwareDatetime
    due_at: AwareDatetime | None
    fired_at: AwareDatetime | None = Field(description="When it was over.")


class EndingAnswer(AnswerModel):
    """What a run does after its steps have ended, before it ends: its `finally`, or to take steps back."""

    part: str = Field(description="What runs now: `finally`, or `compensate:` and the id of a step.")
    step_id: str | None = Field(description="The step that is taken back; null: `finally` runs.")
    run_id: RunId = Field(description="The run that does it.")
    run_status: RunStatus | None = Field(description="Of that run; null: it starts next.")
    ends_as: RunStatus = Field(description="How the run ends then, unless its `finally` fails.")
    error: Any = Field(description="With which error it ends then, as `error` of the run; null: with none.")
    parts: list[str] = Field(description="All that runs, one after the other.")
    timeout_at: AwareDatetime = Field(description="When the run ends at the latest.")


class EndingPart(AnswerModel):
    """What followed the last step of a run, or follows it."""

    part: str = Field(description="`finally`, or `compensate:` and the id of a step.")
    step_id: str | None = Field(description="The step that it takes back; null: `finally`.")
    run_id: RunId | None = Field(description="The run that does it; null: none has started.")
    run_status: RunStatus | None


class RunDetail(Run):
    """A run in full."""

    phase: str = Field(description="The status, or a finer word taken from the latest event.")
    over_ms: int = Field(
        description="For how long it was over before retries reopened it: no part of its duration."
    )
    ending: EndingAnswer | None = Field(
        description="What it does after its steps have ended; null unless its status is `error_handling`."
    )
    ending_parts: list[EndingPart] = Field(
        description="What follows its last step, or followed it, one after the other; empty for most."
    )
    input: Any
    input_ref: Reference | None
    inputs_hash: CodeHash
    edits: EditsAnswer | None = Field(description="What a rerun edited for this run alone; null for most.")
    counts: dict[str, int] = Field(description="Task runs by status.")
    steps: list[StepProgress] = Field(description="In the order of the pipeline.")
    task_runs: list[TaskRun] = Field(description="The first task runs, as many as `taskRuns` asked for.")
    task_runs_cursor: str | None = Field(
        description="Send it as `cursor` to `/task-runs` to get the next ones."
    )
    hooks: list[HookFire] = Field(description="What the pipeline's hooks did for its ends and approvals.")
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


class KeptEvent(AnswerModel):
    """An event as its row has it."""

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


class RunEvent(KeptEvent):
    """One event of a run."""

    trace_id: TraceId


class EventList(Paged):
    """A run's events, oldest first."""

    events: list[RunEvent]
