"""Documents of pipelines and of their versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, FailureMode, Paged, RunId
from pipeweave.orchestrator.documents.bundles import BundleOrigin
from pipeweave.orchestrator.domain import RunStatus, TaskStatus

Source = Literal["decorator", "document", "derived", "api"]


class PipelineSummary(AnswerModel):
    """A pipeline in its current version."""

    id: str
    description: str | None
    version: int = Field(description="The current one, which triggers take.")
    latest_version: int = Field(description="The newest one: the current one, unless another was promoted.")
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
    """A pipeline in its current version, with its newest runs."""

    recent_runs: list[RecentRun] = Field(description="Newest first, as many as `recent` asks for.")


class PipelineList(Paged):
    """Pipelines in the order of their ids."""

    pipelines: list[ListedPipeline]


class Pipeline(AnswerModel):
    """One version of a pipeline."""

    id: str
    description: str | None
    version: int
    current_version: int = Field(description="Triggers take it.")
    latest_version: int
    promoted_version: int | None = Field(description="null: the newest version is the current one.")
    spec_hash: CodeHash
    source: Source
    step_count: int
    failure_mode: FailureMode
    created_at: AwareDatetime
    entry_steps: list[str] = Field(description="The steps that wait for no other step.")
    end_steps: list[str] = Field(description="The steps that no other step waits for.")
    entry_tasks: list[str] = Field(description="The tasks of its entry steps.")
    end_tasks: list[str] = Field(description="The tasks of its end steps.")
    bundle: BundleOrigin | None = Field(description="The bundle that vouches for this version.")
    spec: dict[str, Any] = Field(description="The normalised document: every step with its `needs`.")


class PipelineAnswer(AnswerModel):
    """One pipeline."""

    pipeline: Pipeline


class Version(AnswerModel):
    """One of a pipeline's versions."""

    version: int
    is_current: bool = Field(description="Triggers take it.")
    spec_hash: CodeHash
    source: Source
    created_at: AwareDatetime
    bundle: BundleOrigin | None = Field(description="The bundle that vouches for this version.")
    promoted_at: AwareDatetime | None = Field(description="null: it is not the one that is promoted.")
    promoted_by: str | None = Field(description="The name of the token.")
    is_previous: bool = Field(description="Was current before the promotion: where a rollback leads.")


class CurrentVersion(AnswerModel):
    """Which version of a pipeline triggers take."""

    pipeline_id: str
    version: int = Field(description="The current one.")
    latest_version: int
    promoted_version: int | None = Field(description="null: the newest version is the current one.")
    previous_version: int | None = Field(description="Was current before: where a rollback leads.")
    promoted_at: AwareDatetime | None
    promoted_by: str | None


class VersionList(Paged):
    """A pipeline's versions, newest first."""

    versions: list[Version]


class GridRun(AnswerModel):
    """A column of a grid."""

    id: RunId
    version: int
    status: RunStatus
    error_code: str | None
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class GridStep(AnswerModel):
    """A row of a grid: each list has an entry for each run, null where its version has no such step."""

    id: str = Field(description="The id of the step, or the key of a class of steps.")
    task_id: str
    is_map: bool
    is_in_newest: bool = Field(description="Whether the newest version of the pipeline has it.")
    step_count: int = Field(description="How many steps it stands for: 1, or those of a class.")
    is_open: bool = Field(description="Whether it is a class whose members follow.")
    class_id: str | None = Field(description="The open class that it is a member of.")
    statuses: list[TaskStatus | None]
    attempts: list[int | None]
    ms: list[float | None] = Field(
        description="How long the latest attempt took (ms); null: it has not ended."
    )
    items: list[int | None] = Field(description="How many items a map has; null until that is known.")
    failed: list[int | None] = Field(
        description="How many of its steps failed, of a map how many items, up to 10,000; null: their dead"
        " letters are no longer kept."
    )
    error_codes: list[str | None]


class GridAnswer(AnswerModel):
    """Runs of a pipeline, newest first, by its steps."""

    pipeline_id: str
    version: int = Field(description="The newest version.")
    view: Literal["all", "pattern"]
    open: list[str] = Field(description="Keys of the classes whose members have rows.")
    runs: list[GridRun]
    steps: list[GridStep]
    step_count: int = Field(description="Steps of all rows, also of those outside the window.")
    has_newer: bool
    has_older: bool
    previous_steps: str | None = Field(description="The `fromStep` of the rows before; null: there are none.")
    next_steps: str | None = Field(description="The `fromStep` of the next rows; null: there are none.")
