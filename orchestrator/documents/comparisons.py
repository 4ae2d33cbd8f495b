"""Documents of comparisons: of two runs of a pipeline, and of two versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel, TaskRunId
from pipeweave.orchestrator.documents.runs import Run
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.spec import StepKind


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
    """The versions of two runs, and the steps in which they differ, also by params edited for one of them."""

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


class VersionStep(AnswerModel):
    """A step that only one of two versions has."""

    id: str
    task: str
    needs: list[str]


class Change(AnswerModel):
    """A member that differs; null where it is absent."""

    field: str
    before: Any
    after: Any


class ChangedStep(AnswerModel):
    """A step that both versions have, and how it differs."""

    id: str
    changes: list[Change]


class VersionDifferences(AnswerModel):
    """How two versions of a pipeline differ."""

    pipeline_id: str
    from_: int = Field(alias="from")
    to: int
    added: list[VersionStep]
    removed: list[VersionStep]
    changed: list[ChangedStep]
    settings: list[Change] = Field(description="Members of the pipeline besides its steps.")
