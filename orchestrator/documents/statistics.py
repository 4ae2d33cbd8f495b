"""Documents of statistics."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, TaskRunId
from pipeweave.orchestrator.documents.pipelines import RecentRun

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class DurationsMs(AnswerModel):
    """Durations in ms. Count, min, max and mean are exact; quantiles are within 12 %."""

    count: Count
    min: float | None
    max: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class RunFigures(AnswerModel):
    """Runs of pipelines; standalone tasks are counted as tasks. A run that was continued ended twice."""

    created: Count
    started: Count
    ended: Count
    completed: Count
    partial: Count
    failed: Count
    cancelled: Count
    success_rate: Share | None = Field(description="Completed, of all that ended without being cancelled.")
    duration_ms: DurationsMs
    wait_ms: DurationsMs = Field(description="From its creation until a run started.")


class TaskFigures(AnswerModel):
    """Attempts that ended. Items of maps count, maps do not."""

    attempts: Count
    completed: Count
    failed: Count
    timeout: Count
    lost: Count
    interrupted: Count
    cancelled: Count
    retried: Count = Field(description="Of them, those that another one followed.")
    cached: Count = Field(description="Task runs that completed without an attempt: by a key, or in a rerun.")
    dead_letters: Count = Field(description="Task runs that failed for good.")
    redriven: Count = Field(description="Dead letters that were retried.")
    success_rate: Share | None = Field(description="Of all that were neither cancelled nor interrupted.")
    duration_ms: DurationsMs
    wait_ms: DurationsMs = Field(description="In the queue, of the last attempt of a task run.")
    errors: dict[str, Count] = Field(description="Error code -> attempts, the most frequent first.")


class RunPoint(RunFigures):
    """The runs of one bucket."""

    at: AwareDatetime = Field(description="When it began.")


class TaskPoint(TaskFigures):
    """The attempts of one bucket."""

    at: AwareDatetime = Field(description="When it began.")


class Counted(AnswerModel):
    """What was counted, and how current that is."""

    from_: AwareDatetime = Field(
        alias="from", description="It may be before what was asked: buckets are whole."
    )
    to: AwareDatetime
    bucket: str = Field(description="The length of a bucket, in UTC: `5m`, for example.")
    as_of: AwareDatetime = Field(description="All that happened until then is counted.")
    since: AwareDatetime = Field(
        description="When counting began. `pipeweave db stats --rebuild` counts what was before."
    )
    missed_at: AwareDatetime | None = Field(
        description="When history was last dropped before it was counted: there is a gap."
    )
    is_rebuilding: bool = Field(description="The past is being counted anew: figures are not complete yet.")


class VersionMark(AnswerModel):
    """A version that was new in this time."""

    version: Annotated[int, Field(ge=1)]
    at: AwareDatetime


class RunStats(Counted):
    """The runs of a tenant over time."""

    points: list[RunPoint]
    summary: RunFigures


class TaskStats(Counted):
    """Attempts over time."""

    points: list[TaskPoint]
    summary: TaskFigures
    versions: list[VersionMark] = Field(description="New versions of the task's code; only of one task.")


class TaskColumn(AnswerModel):
    """What the attempts of a task took, over time."""

    task_id: str
    p95_ms: list[float | None] = Field(alias="p95Ms", description="In each bucket; null without any.")


class TaskColumns(AnswerModel):
    """What the attempts of a pipeline's tasks took, over time, in longer buckets."""

    from_: AwareDatetime = Field(alias="from")
    bucket: str
    rows: list[TaskColumn]


class PipelineStats(RunStats):
    """The runs of a pipeline over time."""

    versions: list[VersionMark]
    tasks: TaskColumns = Field(
        description="Those of the newest version, at most 50; attempts in other pipelines are among them."
    )


class PipelineRow(RunFigures):
    """The runs of one pipeline, in short."""

    pipeline_id: str
    per_minute: float = Field(description="Runs that ended a minute.")
    per_day: float
    ends: list[Count] = Field(description="How many ended in each bucket.")
    recent_runs: list[RecentRun] = Field(description="Newest first, as many as `recent` asks for.")


class StatsByPipeline(Counted):
    """The runs of many pipelines, in at most 25 buckets."""

    pipelines: list[PipelineRow] = Field(description="In the order in which they were asked for.")


class TaskRow(TaskFigures):
    """The attempts of one task, in short."""

    task_id: str
    per_minute: float = Field(description="Attempts that ended a minute.")
    per_day: float
    ends: list[Count] = Field(description="How many ended in each bucket.")


class StatsByTask(Counted):
    """The attempts of many tasks, in at most 25 buckets."""

    tasks: list[TaskRow] = Field(description="In the order in which they were asked for.")


class QueueRow(AnswerModel):
    """What left one queue."""

    queue: str
    attempts: Count = Field(
        description="Attempts of its tasks that completed, failed, took too long or were lost."
    )
    ends: list[Count] = Field(description="How many ended in each bucket.")


class StatsByQueue(Counted):
    """What left queues, in at most 31 buckets."""

    queues: list[QueueRow] = Field(description="In the order in which they were asked for.")


class Times(AnswerModel):
    """Durations in ms. Count, min, max and avg are exact; quantiles are within 12 %."""

    count: Count
    min: float | None
    max: float | None
    avg: float | None
    median: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Retries(AnswerModel):
    """Attempts that another one followed, and task runs that completed after such a one."""

    total: Count
    successful: Count


class TaskRunsOfBucket(AnswerModel):
    """Task runs that ended."""

    count: Count
    by_status: dict[str, Count]
    runtime: Times
    wait_time: Times = Field(description="In the queue.")
    retries: Retries


class RunsOfBucket(AnswerModel):
    """Runs that ended."""

    count: Count
    by_status: dict[str, Count]
    runtime: Times


class Errors(AnswerModel):
    """Failed attempts; of a pipeline, failed runs."""

    total: Count
    by_code: dict[str, Count]


class DeadLetterCounts(AnswerModel):
    """Dead letters."""

    added: Count
    retried: Count


class Bucket(AnswerModel):
    """What happened in one stretch of time."""

    timestamp: AwareDatetime
    task_runs: TaskRunsOfBucket | None = Field(description="Null for a pipeline.")
    pipeline_runs: RunsOfBucket | None = Field(description="Null for a task and a service.")
    errors: Errors
    dlq: DeadLetterCounts


class BucketSummary(AnswerModel):
    """All buckets together. Times in ms."""

    total_task_runs: Count
    total_pipeline_runs: Count
    avg_success_rate: Share | None
    avg_runtime: float | None
    avg_wait_time: float | None


class Statistics(Counted):
    """Statistics in buckets."""

    buckets: list[Bucket]
    summary: BucketSummary


class QueueDepth(AnswerModel):
    """Open task runs."""

    pending: Count = Field(description="Ready, queued, or due later.")
    running: Count
    waiting: Count


class TaskDepth(QueueDepth):
    """The open task runs of a task."""

    task_id: str
    task_name: str
    oldest_wait_ms: float | None


class OldestPending(AnswerModel):
    """The task run that has waited longest."""

    run_id: TaskRunId = Field(description="Its id.")
    task_id: str
    wait_ms: float


class QueueStatistics(AnswerModel):
    """What waits and runs now."""

    depth: QueueDepth
    by_task: list[TaskDepth] = Field(description="At most 200, those with the most task runs first.")
    oldest_pending: OldestPending | None
    avg_wait_ms: float | None = Field(description="Of what is pending, so far.")
    is_capped: bool = Field(
        description="More than 10,000 task runs have the same status; the rest is left out."
    )
