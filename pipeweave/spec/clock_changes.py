"""The moments at which a zone's clocks show the times of a cron line (pure).

cronsim finds the times on a clock that nobody moves; this finds when the clocks of the zone show them.
docs/decisions/0030 says what happens to a time that is missing and to one that comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def times_after(line: str, there: ZoneInfo, begin: datetime) -> Iterator[datetime]:
    """The due minutes after this moment, in UTC; some before it may be among the first.

    Args:
        line: a cron line of five fields.
        there: the zone of its times.
        begin: in UTC.

    Raises:
        OverflowError, ValueError: there is no later one in the calendar.
    """
    if not _repeats(line):
        for clock in CronSim(line, _clock(begin, there)):
            yield _once(clock, there)
        return
    if (back := _turned_back(begin, there)) is not None:
        # Up to then the clocks show these times for the first time, and some of them again behind it.
        before = begin.astimezone(there).utcoffset()
        assert before is not None
        shown = (clock.replace(tzinfo=UTC) - before for clock in CronSim(line, _clock(begin, there)))
        yield from takewhile(lambda each: each < back, shown)
        begin = back - _SECOND
        for clock in CronSim(line, _clock(back, there) - _SECOND):
            yield from (each for each in _each_time(clock, there) if each >= back)
        return
    for clock in CronSim(line, _clock(begin, there)):
        yield from (each for each in _each_time(clock, there) if each > begin)


def _repeats(line: str) -> bool:
    """Whether a line goes on with the time that passes; otherwise it names its times."""
    minute, hour, *_ = line.split()
    return minute.startswith("*") or hour.startswith("*")


def _clock(moment: datetime, there: ZoneInfo) -> datetime:
    return moment.astimezone(there).replace(tzinfo=None)


def _each_time(clock: datetime, there: ZoneInfo) -> list[datetime]:
    """When the clocks show this: once as a rule, never, or twice."""
    moments = {clock.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(each for each in moments if _clock(each, there) == clock)


def _once(clock: datetime, there: ZoneInfo) -> datetime:
    """When the clocks show this first; for what they jump over, the first moment after the jump."""
    while not (moments := _each_time(clock, there)):
        clock += _MINUTE
    return moments[0]


def _turned_back(begin: datetime, there: ZoneInfo) -> datetime | None:
    """The moment within a day after `begin` at which the clocks are put back; None if they are not.

    No zone moves its clocks twice in one day, nor by more than a day.
    """

    def has_changed(moment: datetime) -> bool:
        return moment.astimezone(there).utcoffset() != before

    before = begin.astimezone(there).utcoffset()
    assert before is not None
    after = (begin + _DAY).astimezone(there).utcoffset()
    if after is None or after >= before:
        return None
    least, most = 0, int(_DAY / _SECOND)
    while most - least > 1:
        middle = (least + most) // 2
        if has_changed(begin + middle * _SECOND):
            most = middle
        else:
            least = middle
    return begin + most * _SECOND
