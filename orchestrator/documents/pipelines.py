"""Documents of pipelines and of their versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, FailureMode, Paged, RunId
from pipeweave.orchestrator.domain import RunStatus

Source = Literal["decorator", "document", "derived", "api"]


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


class RecentRun(AnswerModel):
    """One of the newest runs of a pipeline."""

    id: RunId
    status: RunStatus
    created_at: AwareDatetime
    duration_ms: float | None


class ListedPipeline(PipelineSummary):
    """A pipeline in its newest version, with its newest runs."""

    recent_runs: list[RecentRun] = Field(description="Newest first, as many as `recent` asks for.")


class PipelineList(Paged):
    """Pipelines in the order of their ids."""

    pipelines: list[ListedPipeline]


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
    entry_steps: list[str] = Field(description="The steps that wait for no other step.")
    end_steps: list[str] = Field(description="The steps that no other step waits for.")
    entry_tasks: list[str] = Field(description="The tasks of its entry steps.")
    end_tasks: list[str] = Field(description="The tasks of its end steps.")
    spec: dict[str, Any] = Field(description="The normalised document: every step with its `needs`.")


class PipelineAnswer(AnswerModel):
    """One pipeline."""

    pipeline: Pipeline


class Version(AnswerModel):
    """One of a pipeline's versions."""

    version: int
    spec_hash: CodeHash
    source: Source
    created_at: AwareDatetime


class VersionList(Paged):
    """A pipeline's versions, newest first."""

    versions: list[Version]
