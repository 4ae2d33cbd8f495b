"""Models of the query parameters of statistics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from pipeweave.api.contract.query_parameters import DIGITS, Moment, Query
from pipeweave.api.contract.requests import Name
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
