"""Models of the answers about pipelines: versions, plans and accepted runs."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.answers import Fault
from pipeweave.orchestrator.documents.base import AnswerModel, CodeHash, RunId
from pipeweave.orchestrator.domain import RunStatus, TaskStatus


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
    warnings: list[GraphFault] = Field([], description="Steps whose task may take longer than the run.")


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
        description="false: an earlier trigger with this run token and input created the run."
    )
    validation_warnings: dict[str, list[Fault]] = Field(
        {}, description="Errors of the input by pipeline and entry task."
    )


class TriggerBatchAnswer(AnswerModel):
    """Runs that were accepted."""

    runs: list[TriggerAnswer] = Field(description="One entry for each run of the request, in the same order.")


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
