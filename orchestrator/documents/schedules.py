"""Documents of schedules: what they are, what they did, when they are due."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId
from pipeweave.orchestrator.domain import RunStatus

MissedPolicy = Literal["skip", "one", "all"]
OverlapPolicy = Literal["allow", "skip", "queue", "cancel-old"]


class ScheduleError(AnswerModel):
    """Why the last fire of a schedule failed."""

    code: str
    message: str


class Schedule(AnswerModel):
    """A schedule."""

    id: str
    pipeline_id: str
    cron: str | None
    text: str | None = Field(description="What the cron line says, in words.")
    every_ms: int | None
    at: AwareDatetime | None
    time_zone: str
    input: Any
    missed_policy: MissedPolicy
    overlap_policy: OverlapPolicy
    jitter_ms: int
    start_at: AwareDatetime | None
    end_at: AwareDatetime | None
    paused: bool
    source: Literal["api", "code", "document", "celery"] = Field(
        description="Who stored it: a request (`api`), the code of its pipeline, the document of its"
        " pipeline, or an import of Celery beat's schedules."
    )
    withdrawn_at: AwareDatetime | None = Field(
        description="Since when its code or document declares it no more, so that nothing starts; else null."
    )
    next_fire_at: AwareDatetime | None = Field(description="With the jitter; null while it is paused.")
    last_fire_at: AwareDatetime | None = Field(description="When runs of it last started, or failed to.")
    last_error: ScheduleError | None = Field(description="Null when its last fire succeeded.")
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Fire(AnswerModel):
    """A due time of a schedule, or a start by hand, and what became of it."""

    scheduled_at: AwareDatetime
    fired_at: AwareDatetime = Field(description="When this was decided.")
    kind: Literal["due", "manual", "backfill"]
    outcome: Literal["fired", "skipped", "waiting", "failed"]
    reason: str | None = Field(description="Why it was skipped or waits.")
    run_id: RunId | None
    run_status: RunStatus | None = Field(description="Of the run now; null: none started, or it was deleted.")
    error: ScheduleError | None


class ScheduleDetail(Schedule):
    """A schedule with its next due times and its last fires."""

    next_fires: list[AwareDatetime] = Field(
        description="The next due times without the jitter, at most 5; as if it were not paused."
    )
    last_fires: list[Fire] = Field(description="The newest first, at most 20.")


class ListedSchedule(Schedule):
    """A schedule with its last fires."""

    last_fires: list[Fire] = Field(description="The newest first, as many as `recent` asks for.")


class ScheduleList(Paged):
    """One page of schedules, in the order of their ids."""

    schedules: list[ListedSchedule]


class CalendarFire(AnswerModel):
    """A time of a schedule."""

    schedule_id: str
    pipeline_id: str
    at: AwareDatetime
    outcome: Literal["fired", "skipped", "waiting", "failed"] | None = Field(
        description="What came of it; null: it is ahead."
    )
    run_id: RunId | None


class OftenDue(AnswerModel):
    """A schedule whose times are not listed."""

    schedule_id: str
    pipeline_id: str
    text: str | None = Field(description="What its cron line says, in words.")
    every_ms: int | None


class ScheduleCalendar(AnswerModel):
    """What schedules did in a stretch of time, and when they are due in it."""

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime
    fires: list[CalendarFire] = Field(
        description="In the order of their times; those ahead without the jitter. At most 168 of a schedule."
    )
    often: list[OftenDue] = Field(description="Schedules with more times than that, which are not listed.")
    paused: list[str] = Field(description="Schedules that are paused: only what they did is listed.")
    is_capped: bool = Field(description="There are more than 100 schedules.")


class DeletedSchedule(AnswerModel):
    """A schedule was deleted."""

    id: str
    deleted: Literal[True]


class ScheduleStarted(AnswerModel):
    """A schedule was started by hand."""

    schedule_id: str
    scheduled_at: AwareDatetime
    pipeline_run_id: RunId
    status: str
    created: bool = Field(description="`false`: an earlier request with the same Idempotency-Key started it.")


class BackfillAnswer(AnswerModel):
    """What a backfill did, or would do."""

    times: list[AwareDatetime] = Field(description="The due times of the range, at most `limit`.")
    created: int = Field(description="How many runs were started; 0 for a dry run.")
    known: int = Field(description="How many of the times had been decided about before.")
    run_ids: list[RunId] = Field(description="The runs that were started, in the order of their times.")
    next_from: AwareDatetime | None = Field(
        description="Send it as `from` to go on; null at the end of the range."
    )


class SchedulePreview(AnswerModel):
    """When a schedule would be due."""

    next_fires: list[AwareDatetime]
    text: str | None = Field(description="What a cron line says, in words.")
