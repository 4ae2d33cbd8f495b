"""Models of queries and answers about statistics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.query_parameters import DIGITS, Moment, Query
from pipeweave.api.contract.requests import Name
from pipeweave.orchestrator.documents.base import AnswerModel, TaskRunId
from pipeweave.orchestrator.documents.pipelines import RecentRun
from pipeweave.orchestrator.telemetry import statistics
from pipeweave.orchestrator.telemetry.statistics import (
    LAST,
    MOST_BUCKETS,
    MOST_IDS,
    MOST_POINTS,
    POINTS,
    QUEUE_POINTS,
    StatsWindow,
)

# The names of `statistics.STEPS`, which a test compares.
_Minutes = Literal["1m", "2m", "5m", "10m", "15m", "30m"]
_Hours = Literal["1h", "2h", "3h", "6h", "12h"]
_Days = Literal["1d", "2d", "7d", "30d", "90d", "365d"]
Step = Literal[_Minutes, _Hours, _Days]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
QueueName = Annotated[str, Field(min_length=1, max_length=1_000)]


class StatsQuery(Query):
    """Of which time statistics are shown."""

    from_: Moment | None = Field(None, alias="from", description="Absent: a day before `to`.")
    to: Moment | None = Field(None, description="Not included. Absent: now.")
    bucket: Step | None = Field(
        None, description=f"Absent: the shortest of which {MOST_POINTS} suffice and that is kept for so long."
    )

    def window(self, now: datetime) -> StatsWindow:
        """The window in the form that the orchestrator takes."""
        return statistics.window(now, self.from_, self.to, step=self.bucket)


class RunStatsQuery(StatsQuery):
    """Of which runs, and of which time."""

    pipeline_id: Name | None = None


class TaskStatsQuery(StatsQuery):
    """Of which tasks, and of which time."""

    task_id: Name | None = None
    service_id: Name | None = Field(None, description="All tasks of this service. Not with `taskId`.")


class _RowsQuery(Query):
    from_: Moment | None = Field(None, alias="from", description="Absent: a day before `to`.")
    to: Moment | None = Field(None, description="Not included. Absent: now.")

    def window(self, now: datetime) -> StatsWindow:
        """The window in the form that the orchestrator takes."""
        return statistics.window(now, self.from_, self.to, most=POINTS)


class ByPipelineQuery(_RowsQuery):
    """Of which pipelines, and of which time."""

    pipeline_id: Annotated[list[Name], Field(max_length=MOST_IDS)] = Field(
        [], description="May be given several times. Absent: those of which most runs failed."
    )
    limit: Annotated[int, Field(ge=1, le=50), DIGITS] = Field(
        10, description="So many of those that fail most."
    )
    recent: Annotated[int, Field(ge=0, le=20), DIGITS] = Field(
        0, description="So many of the newest runs of each."
    )


class ByTaskQuery(_RowsQuery):
    """Of which tasks, and of which time."""

    task_id: Annotated[list[Name], Field(min_length=1, max_length=MOST_IDS)] = Field(
        description="May be given several times."
    )


class ByQueueQuery(Query):
    """Of which queues, and of which time."""

    queue: Annotated[list[QueueName], Field(min_length=1, max_length=MOST_IDS)] = Field(
        description="Full names; may be given several times."
    )
    from_: Moment | None = Field(None, alias="from", description="Absent: an hour before `to`.")
    to: Moment | None = Field(None, description="Not included. Absent: now.")

    def window(self, now: datetime) -> StatsWindow:
        """The window in the form that the orchestrator takes."""
        return statistics.window(now, self.from_, self.to, last=LAST, most=QUEUE_POINTS)


class StatisticsQuery(Query):
    """Of which time statistics are shown."""

    from_: Moment = Field(alias="from")
    to: Moment = Field(description="Not included.")
    bucket: Literal["1m", "1h", "1d"] = "1m"

    def window(self, now: datetime) -> StatsWindow:
        """The window in the form that the orchestrator takes."""
        return statistics.window(now, self.from_, self.to, step=self.bucket, most=MOST_BUCKETS)


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


# --- as the worker protocol's documentation has them ------------------------------------------------------


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
