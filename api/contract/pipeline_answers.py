"""Models of the answers about pipelines: versions, plans and accepted runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, RunId
from pipeweave.orchestrator.documents.parts import Fault
from pipeweave.orchestrator.domain import RunStatus


class GraphFault(AnswerModel):
    """An error or warning about a graph, with the steps it concerns."""

    code: str
    message: str
    steps: list[str]


class StoredAnswer(AnswerModel):
    """The stored version that equals the sent document."""

    pipeline_id: str
    version: int
    spec_hash: CodeHash
    is_new: bool
    warnings: list[GraphFault] = Field(
        [],
        description="Steps whose task may take longer than the run, and those that run a pipeline which is"
        " not stored.",
    )


class PlanEntry(AnswerModel):
    """One level of the graph: steps that do not wait for each other."""

    step: int = Field(description="Number of the level, from 0.")
    tasks: list[str] = Field(description="Its steps.")
    type: Literal["entry", "parallel", "join", "map", "step", "end"]
    waits_for: list[str] = Field([], description="The steps that its joins wait for.")
    joins: dict[str, list[str]] = Field({}, description="Join -> the steps it waits for.")
    maps: list[str] = Field([], description="Its map steps: they run once for each item of a list.")


class PlannedSchedule(AnswerModel):
    """When runs of a pipeline begin by themselves."""

    next_fires: list[AwareDatetime] = Field(description="The next five due times, without the jitter.")
    text: str | None = Field(description="What a cron line says, in words.")


class Spread(AnswerModel):
    """How long something took in past runs."""

    runs: int = Field(description="How many runs it is known of.")
    too_few_runs: bool = Field(description="There are fewer than 10: take the numbers as examples.")
    p50_ms: float | None = Field(description="Half of them took no longer; null: not known.")
    p95_ms: float | None = Field(description="19 of 20 took no longer.")


class StepForecast(Spread):
    """How long a step takes, without its wait for a worker; with retries, the attempt that completed."""

    id: str = Field(description="The step.")


class PastRuns(AnswerModel):
    """How long the past runs took as they were, with their waits and without their pauses."""

    p50_ms: float | None
    p95_ms: float | None


class Forecast(Spread):
    """How long a run will probably take: the steps of the last completed runs, played over this graph."""

    past_runs: PastRuns
    critical_path: list[str] = Field(
        description="The steps whose usual durations add up to the longest path, in their order."
    )
    steps: list[StepForecast] = Field(description="In the order of the document.")


class DryRunAnswer(AnswerModel):
    """The plan of a run, or the errors in the pipeline."""

    valid: bool
    errors: list[GraphFault]
    warnings: list[GraphFault]
    execution_plan: list[PlanEntry]
    validation_errors: dict[str, list[Fault]] = Field(
        {}, description="Errors of the input by pipeline and entry task, when an input was given."
    )
    schedule: PlannedSchedule | None = Field(
        None, description="Of the document, or what the stored pipeline declares; null: none."
    )
    forecast: Forecast | None = Field(
        None, description="From up to 100 past runs of the pipeline; null: the plan is not valid."
    )


class CheckedPipeline(AnswerModel):
    """What is wrong with a document, or what would be stored."""

    valid: bool
    errors: list[Fault] = Field(description="All mistakes, at most 100, each with its field.")
    warnings: list[GraphFault]
    spec: dict[str, Any] | None = Field(description="The document as it would be stored; null: not valid.")
    spec_hash: CodeHash | None


class TriggerAnswer(AnswerModel):
    """A run that was accepted."""

    pipeline_run_id: RunId
    tenant: str
    pipeline_version: int
    status: RunStatus
    input_path: str | None = Field(
        description="The path of a large input in storage; null: the input is in the run's row."
    )
    entry_tasks: list[str]
    queued_tasks: list[str]
    created: bool = Field(
        description="false: an earlier trigger with this run token and input created the run, or this run was"
        " skipped."
    )
    skipped: bool = Field(
        False,
        description="true: the pipeline starts no second run of this key, and this is the one that is open.",
    )
    validation_warnings: dict[str, list[Fault]] = Field(
        {}, description="Errors of the input by pipeline and entry task."
    )


class TriggerBatchAnswer(AnswerModel):
    """Runs that were accepted."""

    runs: list[TriggerAnswer] = Field(description="One entry for each run of the request, in the same order.")
