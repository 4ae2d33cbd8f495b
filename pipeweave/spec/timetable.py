"""When a schedule is due: by a cron line, after each interval, or once (pure).

A cron line is read in a time zone. docs/decisions/0030 says what happens in the hour that is missing and in
the hour that comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pipeweave.spec import clock_changes, cron_fields

MAX_CRON_CHARS = 100
MAX_ZONE_CHARS = 100
# Beat looks once a second.
MIN_EVERY_MS = 1_000
MAX_EVERY_MS = 366 * 86_400_000
MAX_JITTER_MS = 86_400_000
# Times that users give lie in these years.
FIRST_YEAR, LAST_YEAR = 2000, 2999

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
# The last due time is looked for in the last minute, then in the last hour and so on.
_WINDOWS = (_MINUTE, timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=367))
_JUST_BEFORE = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timetable:
    """When something is due. One of `cron`, `every` and `at` is given.

    Args:
        cron: a line that `checked_cron` has checked.
        time_zone: of the cron line.
        every: the interval; `anchor` is a due time of it.
        at: the only due time.
        start: nothing is due before it.
        end: nothing is due after it.
    """

    cron: str | None = None
    time_zone: str = "UTC"
    every: timedelta | None = None
    anchor: datetime = EPOCH
    at: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None

    def after(self, moment: datetime) -> datetime | None:
        """The first due time after this moment, in UTC; None when there is none."""
        if self.start is not None and moment < self.start:
            moment = self.start - _JUST_BEFORE
        due_time = self._after(moment)
        return None if due_time is None or (self.end is not None and due_time > self.end) else due_time

    def _after(self, moment: datetime) -> datetime | None:
        if self.at is not None:
            return self.at if self.at > moment else None
        if self.every is not None:
            return self.anchor + ((moment - self.anchor) // self.every + 1) * self.every
        assert self.cron is not None
        return _cron_after(self.cron, self.time_zone, moment)

    def upcoming(self, moment: datetime) -> Iterator[datetime]:
        """The due times after this moment, one after the other."""
        due_time = self.after(moment)
        while due_time is not None:
            yield due_time
            due_time = self.after(due_time)

    def within(self, begin: datetime, end: datetime, most: int) -> list[datetime]:
        """The due times from `begin` until just before `end`, the first so many of them."""
        upcoming = self.upcoming(begin - _JUST_BEFORE)
        return list(islice(takewhile(lambda each: each < end, upcoming), most))

    def last(self, first: datetime, until: datetime) -> datetime:
        """The last due time up to `until`; `first`, which is a due time, when there is no later one."""
        for window in (*_WINDOWS, until - first):
            since = max(first, until - window)
            due_time = self.after(since)
            if due_time is not None and due_time <= until:
                return self._last_of(due_time, until)
        return first

    def _last_of(self, due_time: datetime, until: datetime) -> datetime:
        for following in self.upcoming(due_time):
            if following > until:
                break
            due_time = following
        return due_time

    def without_bounds(self) -> Timetable:
        """The same times before the start and after the end as well."""
        return replace(self, start=None, end=None)


def first_times(timetable: Timetable, moment: datetime, most: int) -> list[datetime]:
    """The first due times after this moment, at most so many."""
    return list(islice(timetable.upcoming(moment), most))


def _cron_after(cron: str, time_zone: str, moment: datetime) -> datetime | None:
    minutes, seconds = _fields(cron)
    # The minute that the moment lies in may have a second that is still to come.
    begin = moment.astimezone(UTC).replace(second=0, microsecond=0) - timedelta(seconds=1)
    try:
        for minute in clock_changes.times_after(minutes, zone(time_zone), begin):
            due = (minute + timedelta(seconds=second) for second in seconds)
            due_time = next((each for each in due if each > moment), None)
            if due_time is not None:
                return due_time
    # Times beyond the last year of the calendar.
    except (OverflowError, ValueError):
        pass
    return None


@lru_cache(maxsize=1_000)
def _fields(cron: str) -> tuple[str, tuple[int, ...]]:
    """The five fields of a line, and its seconds. So a line with seconds treats the hours that are missing
    or come twice like any other line.
    """
    line = ALIASES.get(cron.strip().lower(), cron)
    fields = line.split()
    if len(fields) == 5:
        return line, (0,)
    seconds = CronSim(line, datetime(2000, 1, 1, tzinfo=UTC)).seconds
    return " ".join(fields[1:]), tuple(sorted(seconds))


@lru_cache(maxsize=1_000)
def zone(name: str) -> ZoneInfo:
    """A time zone by its name.

    Raises:
        ValueError: there is no such zone; the text says what a zone is called.
    """
    try:
        if len(name) > MAX_ZONE_CHARS or not name.isascii() or name != name.strip():
            raise ValueError(name)
        return ZoneInfo(name)
    # A name may also be that of a folder, or of a file that is no zone.
    except (OSError, ValueError, LookupError):
        shown = name[:MAX_ZONE_CHARS]
        raise ValueError(f"{shown!r} is no time zone; they have names such as Europe/Berlin or UTC") from None


def checked_cron(cron: str) -> str:
    """Return a cron line unchanged if it can be read and will be due some day.

    Raises:
        ValueError: it cannot; the text says what is wrong.
    """
    if len(cron) > MAX_CRON_CHARS:
        raise ValueError(f"is longer than {MAX_CRON_CHARS} characters")
    if cron.strip().startswith("@") and cron.strip().lower() not in ALIASES:
        raise ValueError(f"{cron.strip()!r} is unknown; known are {', '.join(ALIASES)}")
    number = len(ALIASES.get(cron.strip().lower(), cron).split())
    if number not in (5, 6):
        raise ValueError(f"has {number} fields; five are needed, or six with seconds in the first")
    try:
        cron_fields.check(ALIASES.get(cron.strip().lower(), cron))
        _, seconds = _fields(cron)
        due_time = _cron_after(cron, "UTC", datetime(2000, 1, 1, tzinfo=UTC)) if seconds else None
    except cron_fields.OutOfRange as error:
        raise ValueError(str(error)) from None
    # cronsim takes the least of an empty list, or adds to a pair, for lines that nobody writes.
    except (CronSimError, ValueError, TypeError, AssertionError) as error:
        raise ValueError(_spoken(error)) from None
    if due_time is None:
        raise ValueError("is never due")
    return cron


def _spoken(error: Exception) -> str:
    if isinstance(error, CronSimError) and str(error).startswith("Bad "):
        name = str(error).removeprefix("Bad ")
        return f"its {name} cannot be read; {cron_fields.EXPECTED[name]}"
    return "cannot be read as a cron line"


def in_words(cron: str) -> str:
    """What a cron line says, in a sentence."""
    line = ALIASES.get(cron.strip().lower(), cron)
    return CronSim(line, datetime(2000, 1, 1, tzinfo=UTC)).explain()
