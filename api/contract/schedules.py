"""Models of the requests about schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pipeweave.api.contract.query_parameters import DIGITS, Moment, PageQuery, Query
from pipeweave.api.contract.requests import WHOLE, Name, Request
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.documents.schedules import MissedPolicy, OverlapPolicy
from pipeweave.orchestrator.starts.schedules import ScheduleSpec, by_hand
from pipeweave.orchestrator.store import DEFAULT_LIMIT, MAX_LIMIT
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import timetable
from pipeweave.spec.timetable import FIRST_YEAR, LAST_YEAR, MAX_JITTER_MS, Timetable

LONGEST = timedelta(days=35)
_ONE_OF: Final = "one of cron, everyMs and at must be given"
_RANGE: Final = "endAt must not lie before startAt"


def _zone(name: str) -> str:
    timetable.zone(name)
    return name


def _within_years(moment: datetime) -> datetime:
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"must lie in the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def _time_or_none(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


Cron = Annotated[
    str,
    Field(max_length=timetable.MAX_CRON_CHARS, examples=["*/5 * * * *"]),
    AfterValidator(timetable.checked_cron),
]
TimeZone = Annotated[
    str, Field(max_length=timetable.MAX_ZONE_CHARS, examples=["Europe/Berlin"]), AfterValidator(_zone)
]
Time = Annotated[Moment, AfterValidator(_within_years)]
EveryMs = Annotated[int, Field(ge=timetable.MIN_EVERY_MS, le=timetable.MAX_EVERY_MS), WHOLE]


class _Times(Request):
    cron: Cron | None = Field(
        None, description="Five fields, or six with seconds in the first; or `@daily` and the like."
    )
    every_ms: EveryMs | None = Field(None, description="The interval in ms, from `startAt` or the creation.")
    at: Time | None = Field(None, description="The only time.")
    time_zone: TimeZone = Field("UTC", description="Of the cron line: a name such as `Europe/Berlin`.")
    start_at: Time | None = Field(None, description="It is not due before this time.")
    end_at: Time | None = Field(None, description="It is not due after this time.")

    @classmethod
    def mistakes_between_fields(cls, body: Mapping[str, Any]) -> Iterable[FieldError]:
        if sum(body.get(name) is not None for name in ("cron", "everyMs", "at")) != 1:
            yield FieldError("", _ONE_OF, "invalid")
        start, end = _time_or_none(body.get("startAt")), _time_or_none(body.get("endAt"))
        if start is not None and end is not None and start > end:
            yield FieldError("", _RANGE, "invalid")

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        rules = [each for each in (self.cron, self.every_ms, self.at) if each is not None]
        if len(rules) != 1:
            raise PydanticCustomError("one_of", _ONE_OF)
        if self.start_at is not None and self.end_at is not None and self.start_at > self.end_at:
            raise PydanticCustomError("range", _RANGE)
        return self


class ScheduleRequest(_Times):
    """What a schedule is to be, as a whole: what is not given has its default."""

    pipeline_id: Name
    input: Any = Field(None, description=f"Any JSON value, at most {INLINE_BYTES:,} bytes; {{}} when absent.")
    missed_policy: MissedPolicy = Field(
        "one",
        description="What happens to due times that passed more than a minute ago: none of them starts, one"
        " run starts for all of them, or each of them starts, up to 100.",
    )
    overlap_policy: OverlapPolicy = Field(
        "allow",
        description="What happens to a due time while a run of the schedule is open: it starts, is skipped,"
        " waits for the end of that run (one at most), or cancels that run.",
    )
    jitter_ms: Annotated[int, Field(ge=0, le=MAX_JITTER_MS), WHOLE] = Field(
        0, description="Each due time starts up to so much later, always as much later for the same time."
    )
    paused: bool | None = Field(None, description="Absent: a stored schedule stays as it is.")
    source: Literal["api", "celery"] = Field(
        "api", description="`celery`: imported from Celery beat's schedules; another import may change it."
    )

    def spec(self) -> ScheduleSpec:
        """The same for the verbs."""
        return ScheduleSpec(
            self.pipeline_id,
            self.cron,
            self.every_ms,
            self.at,
            self.time_zone,
            self.input,
            self.missed_policy,
            self.overlap_policy,
            self.jitter_ms,
            self.start_at,
            self.end_at,
            self.paused,
        )


class SchedulePreviewRequest(_Times):
    """When a schedule would be due."""

    def timetable(self, now: datetime) -> Timetable:
        """The same for the orchestrator; an interval is counted from now, unless `startAt` is given."""
        spec = ScheduleSpec(
            "", self.cron, self.every_ms, self.at, self.time_zone, start_at=self.start_at, end_at=self.end_at
        )
        return spec.timetable(now)


class ScheduleVerbRequest(Request):
    """Pause, resume or start a schedule."""


class BackfillRequest(Request):
    """Start the runs of due times that have passed."""

    model_config = ConfigDict(serialize_by_alias=True)

    begin: Time = Field(alias="from", description="The first time that counts.")
    end: Time = Field(alias="to", description="Times from here on do not count; not after now.")
    dry_run: bool = Field(False, description="`true`: show the times, start nothing.")
    limit: Annotated[int, Field(ge=1, le=by_hand.MAX_BACKFILL), WHOLE] = Field(
        by_hand.MAX_BACKFILL, description="The largest number of due times."
    )


class SchedulesQuery(PageQuery):
    """Parameters of the list of schedules."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="The largest number of rows on the page; 100 at most with `recent`."
    )
    pipeline_id: Name | None = Field(None, description="Only schedules of this pipeline.")
    state: Literal["on", "failed", "paused", "over"] | None = Field(
        None, description="`failed`: its last fire failed. `over`: it is not due any more."
    )
    recent: Annotated[int, Field(ge=0, le=20), DIGITS] = Field(
        0, description="So many of the last fires of each schedule come with it."
    )


class CalendarQuery(Query):
    """Of which time a calendar is wanted."""

    from_: Time | None = Field(None, alias="from", description="Absent: now.")
    to: Time | None = Field(None, description="Not included; at most 35 days later. Absent: 7 days later.")
    pipeline_id: Name | None = Field(None, description="Only schedules of this pipeline.")

    def window(self, now: datetime) -> tuple[datetime, datetime]:
        """The first moment, and the one after the last.

        Raises:
            InvalidInput: it is empty or too long.
        """
        begin = self.from_ or now
        end = self.to or begin + timedelta(days=7)
        if begin < end <= begin + LONGEST:
            return begin, end
        message = f"must lie after from, and at most {LONGEST.days} days"
        raise InvalidInput(f"to {message}", errors=[FieldError("to", message, "out_of_range")])
