"""Read the entries of a Celery app's `beat_schedule` as schedules of ours.

Celery's schedules are known by the names of their classes: a subclass may be due at any time, so it is
refused. A crontab holds sets of numbers, of which a cron line is written that means the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta, tzinfo
from typing import Any

from pipeweave.ids import MAX_NAME_LENGTH
from pipeweave.json_values import json_faults
from pipeweave.spec import timetable

PREFIX = "celery:"
# From here on whole intervals are counted for `relative` entries.
_ALIGNED = "2000-01-01T00:00:00Z"
# Options of an entry that change nothing for a run, or are Celery's own.
_SILENT_OPTIONS = frozenset({"task_id", "ignore_result", "argsrepr", "kwargsrepr"})

_MINUTES, _HOURS, _DAYS = range(60), range(24), range(1, 32)
_MONTHS, _WEEKDAYS = range(1, 13), range(7)
# The days on which the first, second, … weekday of a month falls.
_WEEKS = [frozenset(range(begin, min(begin + 7, 32))) for begin in (1, 8, 15, 22, 29)]


class NotImportable(ValueError):
    """An entry that no schedule of ours can stand for; the text says why."""


@dataclass(frozen=True, slots=True)
class BeatEntry:
    """One entry of `beat_schedule`.

    Args:
        name: its key.
        id: of the schedule that stands for it.
        task: the name of its task.
        times: the members of the schedule that say when it is due; empty when `reason` is given.
        args: its positional arguments.
        kwargs: its arguments by name.
        options: the names of its options that a schedule does not have.
        reason: why it cannot be imported.
    """

    name: str
    id: str
    task: str
    times: Mapping[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    reason: str | None = None


def entries_of(app: Any, time_zone: str | None = None) -> list[BeatEntry]:
    """The entries of a Celery app, by name.

    Args:
        app: a Celery app that has been finalized.
        time_zone: that of its cron lines; None for the app's own.
    """
    taken: set[str] = set()
    entries = sorted((str(name), entry) for name, entry in dict(app.conf.beat_schedule or {}).items())
    return [_entry(app, name, entry, time_zone, taken) for name, entry in entries]


def _entry(app: Any, name: str, entry: Any, time_zone: str | None, taken: set[str]) -> BeatEntry:
    id = _id(name, taken)
    if not isinstance(entry, Mapping) or "schedule" not in entry or "task" not in entry:
        return BeatEntry(name, id, "", reason="it has no task or no schedule")
    task = str(entry["task"])
    try:
        times = times_of(entry["schedule"], bool(entry.get("relative")), lambda: time_zone or zone_of(app))
        args, kwargs = tuple(entry.get("args") or ()), dict(entry.get("kwargs") or {})
        if json_faults([*args, kwargs]):
            raise NotImportable("its arguments are not JSON")
    except NotImportable as error:
        return BeatEntry(name, id, task, reason=str(error))
    options = sorted(str(each) for each in entry.get("options") or {} if each not in _SILENT_OPTIONS)
    return BeatEntry(name, id, task, times, args, kwargs, tuple(options))


def _id(name: str, taken: set[str]) -> str:
    """An id made of the entry's name; a name that gives the id of another one gets its hash."""
    id = (PREFIX + re.sub(r"[^A-Za-z0-9._~:@-]+", "-", name))[:MAX_NAME_LENGTH]
    if id in taken:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        id = f"{id[: MAX_NAME_LENGTH - 9]}-{digest}"
    taken.add(id)
    return id


def zone_of(app: Any) -> str:
    """The time zone in which an app reads its crontabs.

    Raises:
        NotImportable: it is the local time of whichever host runs beat.
    """
    named: Any = app.conf.timezone
    if not named and app.conf.enable_utc:
        return "UTC"
    if isinstance(named, tzinfo):
        named = getattr(named, "key", None) or getattr(named, "zone", None) or str(named)
    if not named:
        raise NotImportable("the app has no timezone, and enable_utc is off: give --time-zone")
    try:
        timetable.zone(str(named))
    except ValueError:
        raise NotImportable(f"the app's time zone {str(named)!r} is unknown: give --time-zone") from None
    return str(named)


def times_of(schedule: Any, is_relative: bool, time_zone: Any) -> dict[str, Any]:
    """The members of a schedule that is due when Celery's is.

    Args:
        schedule: a crontab, a schedule, a timedelta, or seconds.
        is_relative: whether an interval is counted in whole ones, as `relative` of an entry says.
        time_zone: called for the zone of a crontab.

    Raises:
        NotImportable: there is no such schedule.
    """
    kind = f"{type(schedule).__module__}.{type(schedule).__qualname__}"
    if isinstance(schedule, (int, float)) and not isinstance(schedule, bool):
        schedule = timedelta(seconds=schedule)
    if isinstance(schedule, timedelta):
        return _interval(schedule, is_relative)
    if kind == "celery.schedules.schedule":
        return _interval(schedule.run_every, is_relative or bool(schedule.relative))
    if kind == "celery.schedules.crontab":
        line = cron_line(
            schedule.minute,
            schedule.hour,
            schedule.day_of_month,
            schedule.month_of_year,
            schedule.day_of_week,
        )
        zone = time_zone()
        return {"cron": line} if zone == "UTC" else {"cron": line, "timeZone": zone}
    if kind == "celery.schedules.solar":
        raise NotImportable("the sun decides when it is due; schedules cannot follow it")
    raise NotImportable(f"only Celery can say when a {type(schedule).__name__} is due")


def _interval(every: timedelta, is_relative: bool) -> dict[str, Any]:
    ms = every // timedelta(milliseconds=1)
    if not timetable.MIN_EVERY_MS <= ms <= timetable.MAX_EVERY_MS:
        raise NotImportable("its interval is not one of 1 second to 366 days")
    return {"everyMs": ms, "startAt": _ALIGNED} if is_relative else {"everyMs": ms}


def cron_line(
    minutes: Collection[int],
    hours: Collection[int],
    days: Collection[int],
    months: Collection[int],
    weekdays: Collection[int],
) -> str:
    """The cron line that is due at these times. To Celery, both the day of the month and that of the week
    have to fit.

    Raises:
        NotImportable: no line says so, or only one that is too long.
    """
    day, weekday = _day_fields(frozenset(days), frozenset(weekdays))
    minute, hour = _field(minutes, _MINUTES), _field(hours, _HOURS)
    line = f"{minute} {hour} {day} {_field(months, _MONTHS)} {weekday}"
    try:
        return timetable.checked_cron(line)
    except ValueError as error:
        raise NotImportable(f"its cron line {error}") from None


def _day_fields(days: frozenset[int], weekdays: frozenset[int]) -> tuple[str, str]:
    """The fields of the days. Both have to fit only if one of them begins with a star; else one is enough."""
    day, weekday = _field(days, _DAYS), _field(weekdays, _WEEKDAYS)
    if "*" in (day[0], weekday[0]):
        return day, weekday
    if 1 in days:
        return ",".join(["*/31", *_runs(days - {1})]), weekday
    if 0 in weekdays:
        return day, ",".join(["*/7", *_runs(weekdays - {0})])
    weeks = [number for number, week in enumerate(_WEEKS, start=1) if week <= days]
    if days == frozenset().union(*(_WEEKS[number - 1] for number in weeks)):
        return "*", ",".join(f"{each}#{number}" for number in weeks for each in sorted(weekdays))
    raise NotImportable("a cron line cannot say that both its days of the month and of the week have to fit")


def _field(values: Collection[int], every: range) -> str:
    """A field of a cron line for a set of numbers."""
    for step in range(1, len(every)):
        if set(values) == set(every[::step]) and (step == 1 or len(every) // step > 1):
            return "*" if step == 1 else f"*/{step}"
    return ",".join(_runs(values))


def _runs(values: Collection[int]) -> Iterator[str]:
    """Numbers as a list of single ones and ranges."""
    left = sorted(values)
    while left:
        end = next((at for at, each in enumerate(left) if each != left[0] + at), len(left))
        yield str(left[0]) if end == 1 else f"{left[0]}-{left[end - 1]}"
        left = left[end:]
