"""What is answered about pipelines: versions, plans, accepted runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.answers import AnswerModel, CodeHash, FailureMode, Fault, Paged, RunId, Source
from pipeweave.orchestrator.domain.states import RunStatus


class PipelineSummary(AnswerModel):
    """A pipeline in its newest version."""

    id: str
    description: str | None
    version: int
    spec_hash: CodeHash
    source: Source
    step_count: int
    failure_mode: FailureMode
    created_at: AwareDatetime
    updated_at: AwareDatetime


class PipelineList(Paged):
    """Pipelines in the order of their ids."""

    pipelines: list[PipelineSummary]


class Pipeline(AnswerModel):
    """One version of a pipeline."""

    id: str
    description: str | None
    version: int
    spec_hash: CodeHash
    source: Source
    step_count: int
    failure_mode: FailureMode
    created_at: AwareDatetime
    spec: dict[str, Any] = Field(description="The normalised document: every step with its `needs`.")


class PipelineAnswer(AnswerModel):
    """One pipeline."""

    pipeline: Pipeline


class StoredAnswer(AnswerModel):
    """The version that now says what was sent."""

    pipeline_id: str
    version: int
    spec_hash: CodeHash
    is_new: bool


class Version(AnswerModel):
    """One of a pipeline's versions."""

    version: int
    spec_hash: CodeHash
    source: Source
    created_at: AwareDatetime


class VersionList(Paged):
    """A pipeline's versions, newest first."""

    versions: list[Version]


class GraphFault(AnswerModel):
    """Something about a graph, with the steps it concerns."""

    code: str
    message: str
    steps: list[str]


class PlanEntry(AnswerModel):
    """One level of the graph: steps that do not wait for each other."""

    step: int = Field(description="Number of the level, from 0.")
    tasks: list[str] = Field(description="Its steps.")
    type: Literal["entry", "parallel", "join", "end"]
    waits_for: list[str] = Field([], description="What its joins wait for.")
    joins: dict[str, list[str]] = Field({}, description="Join -> the steps it waits for.")
    maps: list[str] = Field([], description="Its steps that run once per item of a list.")


class DryRunAnswer(AnswerModel):
    """What a run would do."""

    valid: bool
    errors: list[GraphFault]
    warnings: list[GraphFault]
    execution_plan: list[PlanEntry]
    validation_errors: dict[str, list[Fault]] = Field(
        {}, description="By entry task, when an input was given."
    )


class TriggerAnswer(AnswerModel):
    """A run that was accepted."""

    pipeline_run_id: RunId
    pipeline_version: int
    status: RunStatus
    input_path: str | None = Field(
        description="Where a large input is kept; null for one that is in its row."
    )
    entry_tasks: list[str]
    queued_tasks: list[str]
    created: bool = Field(description="False: the run token had been used with this input before.")
    validation_warnings: dict[str, list[Fault]] = Field({}, description="By entry task, when there are any.")


class TriggerBatchAnswer(AnswerModel):
    """Runs that were accepted."""

    runs: list[TriggerAnswer] = Field(description="One for each of the request, in its order.")
