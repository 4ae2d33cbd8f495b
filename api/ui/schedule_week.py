"""Lays the times of schedules out as a week of days and hours, as the clocks of a zone show them (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS, HOURS = 7, 24


@dataclass(frozen=True, slots=True)
class Day:
    """A column.

    Args:
        change: what happens to the clocks that day; empty on most days.
    """

    date: date
    is_today: bool
    change: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An hour of a day.

    Args:
        fires: of the calendar, each with the `minute` of the clock.
        is_missing: the clocks skip this hour.
        now: what the clocks show, if it is this hour.
    """

    fires: Sequence[Mapping[str, Any]]
    is_missing: bool = False
    now: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """An hour of all days; or hours in which nothing is due and which are not now: then it has no cells.

    Args:
        until: the hour at which a stretch of empty hours ends.
    """

    hour: int
    until: int
    cells: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True)
class Week:
    """A week that begins on a Monday.

    Args:
        begin: its first moment, in UTC; `end` is the first moment after it.
    """

    monday: date
    zone: ZoneInfo

    @classmethod
    def of(cls, day: date, zone: ZoneInfo) -> Week:
        """The week that a day lies in."""
        return cls(day - timedelta(days=day.weekday()), zone)

    @property
    def begin(self) -> datetime:
        return self._midnight(0)

    @property
    def end(self) -> datetime:
        return self._midnight(DAYS)

    def _midnight(self, day: int) -> datetime:
        return datetime.combine(self.monday + timedelta(days=day), time(), self.zone).astimezone(UTC)

    def days(self, now: datetime) -> list[Day]:
        """The columns."""
        today = now.astimezone(self.zone).date()
        dates = [self.monday + timedelta(days=each) for each in range(DAYS)]
        return [Day(each, each == today, self._change(number)) for number, each in enumerate(dates)]

    def _change(self, day: int) -> str:
        begin, end = self._midnight(day), self._midnight(day + 1)
        hours = (end - begin).total_seconds() / 3_600
        if hours == HOURS:
            return ""
        return f"clocks go {'forward' if hours < HOURS else 'back'}: this day has {hours:g} hours"

    def rows(self, fires: Sequence[Mapping[str, Any]], now: datetime) -> list[Row]:
        """The hours in which something is due and the one of now, and between them the stretches without.

        Args:
            fires: of the calendar: {at, …} in the order of their times.
        """
        placed: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
        for each in fires:
            at = datetime.fromisoformat(each["at"]).astimezone(self.zone)
            place = at.hour, (at.date() - self.monday).days
            placed[place].append({**each, "clock": f"{at:%H:%M}", "zone": at.tzname()})
        return list(self._folded(placed, now.astimezone(self.zone)))

    def _folded(
        self, placed: Mapping[tuple[int, int], Sequence[Mapping[str, Any]]], now: datetime
    ) -> Iterator[Row]:
        today = (now.date() - self.monday).days
        used = sorted({hour for hour, _ in placed} | ({now.hour} if 0 <= today < DAYS else set()))
        before = 0
        for hour in (*used, HOURS):
            if hour > before:
                yield Row(before, hour)
            if hour < HOURS:
                cells = [self._cell(hour, day, placed) for day in range(DAYS)]
                if hour == now.hour and 0 <= today < DAYS:
                    cells[today] = replace(cells[today], now=f"{now:%H:%M}")
                yield Row(hour, hour + 1, cells)
            before = hour + 1

    def _cell(
        self, hour: int, day: int, placed: Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]
    ) -> Cell:
        local = datetime.combine(self.monday + timedelta(days=day), time(hour), self.zone)
        is_missing = local.astimezone(UTC).astimezone(self.zone).hour != hour
        return Cell(placed.get((hour, day), ()), is_missing)
