"""Documents of the time of a run: its ledger, its timeline, and the items of its maps."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TaskRunId
from pipeweave.orchestrator.documents.task_runs import MapItem
from pipeweave.orchestrator.domain import RunStatus, TaskStatus
from pipeweave.spec import StepKind

WaitKind = Literal[
    "work",
    "failedWork",
    "items",
    "asleep",
    "approval",
    "signal",
    "child",
    "outside",
    "queue",
    "taskLimit",
    "tenantLimit",
    "pause",
    "retryDelay",
    "sameKey",
    "predecessors",
    "ended",
]


class LedgerSum(AnswerModel):
    """What one kind of work or wait took together."""

    kind: WaitKind
    label: str = Field(description="The same in words.", examples=["waiting for a slot of resize (limit 4)"])
    task_id: str | None = Field(description="The task whose limit it waited for; null for any other kind.")
    waits_for: str | None = Field(
        description="The people or signals that it waited for, as the pipeline names them, or the pipeline"
        " that a step runs; null for others."
    )
    limit: int | None = Field(description="The task's limit as it is now; null without one.")
    ms: float
    steps: int = Field(description="In how many steps of the critical path.")


class LedgerStep(AnswerModel):
    """A step of the critical path."""

    step_id: str
    task_id: str
    status: TaskStatus
    ms: float = Field(description="Its share of the run: from the end of the step before it to its own.")
    map_index: int | None = Field(description="Of a map: the item that ended last, which is the one told.")
    kinds: dict[WaitKind, float] = Field(description="ms by kind; they add up to `ms`.")
    text: str = Field(description="The same in words.")


class LedgerAnswer(AnswerModel):
    """What the duration of a run was spent on, along its critical path. The sums add up to the total.

    In place of the time of a step that waited for its child runs, what those were doing is told: of the 20
    longest ones.
    """

    run_id: RunId
    pipeline_id: str
    status: RunStatus
    is_open: bool = Field(description="true: it is told up to `until`, which is now.")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    until: AwareDatetime
    total_ms: float = Field(description="From `createdAt` to `until`.")
    sums: list[LedgerSum] = Field(description="The longest first.")
    steps: list[LedgerStep] = Field(description="In their order; the 100 that took the longest.")
    path_length: int = Field(description="Steps of the critical path.")
    text: str = Field(description="The same in words.")


class TimelineBar(AnswerModel):
    """A step did one thing, or waited for one thing. Times are ms since the run was created."""

    kind: WaitKind
    from_ms: float
    to_ms: float
    attempt: int
    error_code: str | None = Field(description="Of an attempt that ended badly.")


class Lane(AnswerModel):
    """How many items of a map ran at a time, in equal bins; times are ms since the run's creation."""

    from_ms: float
    to_ms: float
    running: list[float] = Field(description="By bin: how many ran on average.")
    failed: list[int] = Field(description="By bin: how many attempts ended badly.")


class TimelineStep(AnswerModel):
    """A step of a run. Where there is no bar, it waited for its predecessors, or was over."""

    step_id: str
    task_run_id: TaskRunId
    task_id: str
    kind: StepKind
    status: TaskStatus
    attempt: int
    error_code: str | None
    map_count: int | None
    waits_for: str | None = Field(
        description="Of a step that waits for people or signals: as the pipeline names them; of one that runs"
        " a pipeline: that one."
    )
    level: int = Field(description="Steps of the longest way to it.")
    is_critical: bool = Field(description="Whether it is on the critical path, as the ledger follows it.")
    bars: list[TimelineBar] = Field(description="In their order; the last 200.")
    lane: Lane | None = Field(
        description="Of a map that was laid out, while the maps up to it on the page have no more than"
        " 200,000 items together; `GET …/steps/{step}/items?view=lane` has any."
    )


class TimelineAnswer(Paged):
    """What the steps of a run did when."""

    run_id: RunId
    pipeline_id: str
    status: RunStatus
    is_open: bool
    created_at: AwareDatetime
    started_ms: float | None = Field(description="When the run was admitted; null: it was not.")
    total_ms: float = Field(description="Until its end, or until now.")
    steps: list[TimelineStep] = Field(description="In the order of the pipeline.")


class ErrorCodeItems(AnswerModel):
    """The items that failed with one error code."""

    code: str | None
    count: int
    ranges: list[list[int]] = Field(description="Their indexes as closed ranges, the first 500.")


class Matrix(AnswerModel):
    """The items of a map in the order of their indexes, as two short texts."""

    statuses: str = Field(
        description="A letter for each item, and a number where it repeats: p pending, r ready, q queued,"
        " R running, w waiting, c completed, f failed, t timeout, x cancelled, s skipped.",
        examples=["c997f2c"],
    )
    counts: dict[str, int] = Field(description="Items by status.")
    durations: str = Field(
        description="A letter for each item: how long it took among all, in 91 levels from `#` (the quickest)"
        " to `~`, without the backslash; a space for an item that has not ended."
    )
    slowest_ms: float | None
    median_ms: float | None
    error_codes: list[ErrorCodeItems] = Field(description="The 20 most frequent.")


class ItemsAnswer(AnswerModel):
    """The items of a map: a page of them, or all of them as a matrix or a lane."""

    run_id: RunId
    step_id: str
    task_run_id: TaskRunId = Field(description="The map's own.")
    status: TaskStatus
    total: int
    seq: int = Field(description="The number of the run's newest event: another number, another answer.")
    items: list[MapItem] | None
    next_cursor: str | None
    matrix: Matrix | None
    lane: Lane | None
