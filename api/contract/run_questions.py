"""Models of the answers about a run that compare, verify and explain it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.query_parameters import DIGITS, Query
from pipeweave.api.contract.requests import Request
from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId
from pipeweave.orchestrator.documents.queues import Reason
from pipeweave.orchestrator.documents.runs import Run
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.spec import StepKind, TaskRunKind

# --- comparing --------------------------------------------------------------------------------------------


class InputDifference(AnswerModel):
    """One place at which two inputs differ."""

    path: str = Field(description="Such as `.lines[3].price`; empty: the whole input.")
    change: Literal["added", "removed", "changed"]
    left: Any
    right: Any
    is_cut: bool = Field(description="A value was too long: the first 1,000 characters of its JSON.")


class InputComparison(AnswerModel):
    """The inputs of two runs."""

    is_same: bool = Field(description="Their hashes are equal.")
    differences: list[InputDifference] | None = Field(
        description="The first 200; null where an input is in storage."
    )
    is_complete: bool = Field(description="Whether these are all the differences.")


class VersionComparison(AnswerModel):
    """The versions of two runs, and the steps in which they differ."""

    left: int
    right: int
    added: list[str]
    removed: list[str]
    changed: list[str]


class ComparedOutcome(AnswerModel):
    """What a step did in one of the two runs."""

    task_run_id: TaskRunId
    task_id: str
    kind: StepKind
    status: TaskStatus
    attempt: int
    duration_ms: float | None = Field(description="Of all attempts, with the waiting between them.")
    output_hash: str | None = Field(description="null unless it completed.")
    code_version: int
    error_code: str | None
    items: int | None = Field(description="Of a map.")


class ComparedStep(AnswerModel):
    """One step in two runs."""

    id: str
    presence: Literal["both", "onlyLeft", "onlyRight"]
    delta_ms: float | None = Field(description="How much longer it took on the right.")
    has_same_output: bool | None = Field(
        description="Whether both gave the same, proven by equal hashes; null where one of them gave nothing."
    )
    is_changed: bool = Field(
        description="It ended otherwise, was tried another number of times, or ran other code."
    )
    left: ComparedOutcome | None
    right: ComparedOutcome | None


class ComparisonCounts(AnswerModel):
    """How many steps of a comparison are of which kind."""

    both: int
    only_left: int
    only_right: int
    changed: int
    same_output: int
    other_output: int


class RunComparison(AnswerModel):
    """Two runs of one pipeline beside each other."""

    left: Run
    right: Run
    delta_ms: float | None = Field(description="How much longer the right run took; null while one is open.")
    input: InputComparison
    version: VersionComparison
    counts: ComparisonCounts
    steps: list[ComparedStep] = Field(description="Those first that make most of the difference in time.")
    is_complete: bool = Field(description="Whether these are all the steps.")


# --- verifying --------------------------------------------------------------------------------------------


class VerifyRequest(Request):
    """Verify a run."""


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


# --- forecast ---------------------------------------------------------------------------------------------


class RunForecast(AnswerModel):
    """When a run will probably end."""

    id: RunId
    status: RunStatus
    runs: int = Field(description="How many completed runs it is from, the last 100 at most.")
    too_few_runs: bool = Field(description="There are fewer than 10: take the numbers as examples.")
    left_ms: float | None = Field(description="null: not known, or the run is not running.")
    ends_at: AwareDatetime | None
    unknown_steps: int = Field(description="Open steps that no past run had; they count as nothing.")


# --- why --------------------------------------------------------------------------------------------------


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


# --- at an event ------------------------------------------------------------------------------------------


class StateAtQuery(Query):
    """At which event of its history a run is wanted."""

    seq: Annotated[int, Field(ge=0, le=2**53), DIGITS] = Field(
        description="The `seq` of an event: what the run was once this event had happened."
    )


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
    counts: dict[str, int] = Field(description="Task runs by status.")
    steps: list[StepAt]
