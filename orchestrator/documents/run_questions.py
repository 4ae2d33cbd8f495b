"""Documents that explain a run: when it will end, why it waits, whether its rows are right, what it was."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId
from pipeweave.orchestrator.documents.queues import Reason
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.spec import TaskRunKind


class VerifyDifference(AnswerModel):
    """One difference between the rows of a run and its events."""

    task_run_id: TaskRunId | None = Field(description="null: the row of the run itself differs.")
    field: str = Field(
        description="The column; `attempts[n]`, `row` (missing on one side), or `event` (impossible there)."
    )
    stored: Any
    rebuilt: Any


class RunVerification(AnswerModel):
    """Whether the rows of a run are what its events imply."""

    run_id: RunId
    is_equal: bool
    differences: list[VerifyDifference] = Field(description="The first 100.")
    is_complete: bool
    events: int
    task_runs: int
    verified_at: AwareDatetime


class RunForecast(AnswerModel):
    """When a run will probably end."""

    id: RunId
    status: RunStatus
    runs: int = Field(description="How many completed runs it is from, the last 100 at most.")
    too_few_runs: bool = Field(description="There are fewer than 10: take the numbers as examples.")
    left_ms: float | None = Field(description="null: not known, or the run is not running.")
    ends_at: AwareDatetime | None
    unknown_steps: int = Field(description="Open steps that no past run had; they count as nothing.")


class SummedReason(AnswerModel):
    """Why task runs of one task wait, which wait in the same way."""

    count: int = Field(description="How many of them there are.")
    task_id: str
    status: TaskStatus
    kind: TaskRunKind
    task_run_id: TaskRunId = Field(description="The one that was asked; `text` and `reasons` are about it.")
    code: str = Field(description="A stable word for the reason that has to be resolved first.")
    text: str
    reasons: list[Reason] = Field(description="In the order in which they have to be resolved.")


class RunWhyAnswer(AnswerModel):
    """Why a run does not go on: the reasons of its open task runs, summed."""

    run_id: RunId
    open: int = Field(description="Task runs that have not ended.")
    running: int
    waiting: int = Field(description="Open task runs that do not run.")
    summary: str | None = Field(
        description="Such as `431 wait: 400 for a slot of resize, 31 for predecessors`."
    )
    reason: Reason | None = Field(
        description="What holds the run itself: its pause. Without open task runs it waits for nothing else."
    )
    reasons: list[SummedReason] = Field(description="Those first that hold most task runs.")
    is_complete: bool = Field(description="false: there are further groups, which were only counted.")
    edited_params: list[str] = Field(description="Steps whose params were edited for this run alone.")
    other_input: list[str] = Field(description="Reused steps that have read another input than the run's.")


class StepAt(AnswerModel):
    """A step as it was at an event."""

    id: str
    task_run_id: TaskRunId
    status: TaskStatus
    attempt: int
    worker: str | None
    error_code: str | None
    items: dict[str, int] | None = Field(description="Of a map: its items by status.")


class RunAt(AnswerModel):
    """A run as it was at an event, rebuilt from the events up to it."""

    run_id: RunId
    seq: int
    at: AwareDatetime | None
    events: int = Field(description="How many events happened up to it.")
    status: RunStatus | None = Field(description="null before its first event.")
    error_code: str | None
    edited_params: list[str] = Field(description="Steps whose params were edited for this run alone.")
    other_input: list[str] = Field(description="Reused steps that have read another input.")
    counts: dict[str, int] = Field(description="Task runs by status.")
    steps: list[StepAt]


class WhyAnswer(AnswerModel):
    """The reasons why a task run does not run yet. `runId` is null for a standalone task."""

    task_run_id: TaskRunId
    run_id: RunId | None
    status: TaskStatus
    is_edited: bool = Field(description="Whether its params were edited for this run alone.")
    reasons: list[Reason] = Field(description="In the order in which they have to be resolved.")
