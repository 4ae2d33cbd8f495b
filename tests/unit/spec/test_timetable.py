"""Due times of cron lines, against an independent oracle that walks the clocks minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeweave.spec.timetable import Timetable, checked_cron, first_times, in_words, zone

MINUTE = timedelta(minutes=1)
# The last two move their clocks by half an hour, and at midnight.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe", "Asia/Beirut")
LINES = (
    "30 2 * * *",
    "0 0 * * *",
    "15,45 1,2 * * *",
    "*/20 * * * *",
    "0 * * * *",
    "*/15 1-3 * * *",
    "30 */2 * * *",
)


# --- the oracle -------------------------------------------------------------------------------------------


def numbers(field: str, least: int, most: int) -> set[int]:
    """The numbers of a field with lists, ranges and steps."""
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def changes(name: str, years: range) -> Iterator[datetime]:
    """The first minute after each change of a zone's clocks, by looking at each hour, then at each minute."""
    there, moment = ZoneInfo(name), datetime(years.start, 1, 1, tzinfo=UTC)
    while moment.year < years.stop:
        following = moment + timedelta(hours=1)
        if moment.astimezone(there).utcoffset() != following.astimezone(there).utcoffset():
            before = moment.astimezone(there).utcoffset()
            yield next(
                each
                for each in (moment + number * MINUTE for number in range(61))
                if each.astimezone(there).utcoffset() != before
            )
        moment = following


def expected(line: str, name: str, begin: datetime, end: datetime) -> list[datetime]:
    """What the stated policy says about each minute of a range."""
    minute, hour, *_ = line.split()
    minutes, hours, there = numbers(minute, 0, 59), numbers(hour, 0, 23), ZoneInfo(name)
    walk = [begin + number * MINUTE for number in range(int((end - begin) / MINUTE))]
    clocks = [each.astimezone(there).replace(tzinfo=None) for each in walk]
    if minute.startswith("*") or hour.startswith("*"):
        # It goes on with the time that passes: what the clock does not show is never due, what it shows
        # twice is due twice.
        return [each for each, clock in zip(walk, clocks, strict=True) if is_due(clock, minutes, hours)]
    found, shown = set(), set()
    for each, clock, before in zip(walk[1:], clocks[1:], clocks, strict=False):
        # The first time that the clock shows something counts; what it jumps over is due after the jump.
        jumped = [before + number * MINUTE for number in range(1, int((clock - before) / MINUTE))]
        wanted = [clock] if clock not in shown else []
        if any(is_due(one, minutes, hours) for one in jumped + wanted):
            found.add(each)
        shown.add(clock)
    return sorted(found)


def is_due(clock: datetime, minutes: set[int], hours: set[int]) -> bool:
    return clock.minute in minutes and clock.hour in hours


@pytest.mark.parametrize("name", ZONES)
def test_each_change_of_the_clocks_in_ten_years_is_treated_as_stated(name: str) -> None:
    seen = 0
    for change in changes(name, range(2020, 2030)):
        begin, end = change - timedelta(hours=5), change + timedelta(hours=5)
        for line in LINES:
            walked = [each for each in expected(line, name, begin, end) if each > begin]
            timetable = Timetable(line, name, end=end - MINUTE)
            assert list(timetable.upcoming(begin)) == walked, (line, change)
            seen += len(walked)
    assert seen > 1_000


@pytest.mark.parametrize("name", ZONES)
def test_each_due_time_is_found_from_every_minute_before_it(name: str) -> None:
    for change in list(changes(name, range(2024, 2025))):
        begin, end = change - timedelta(hours=3), change + timedelta(hours=3)
        for line in LINES:
            timetable = Timetable(line, name)
            times = list(each_until(timetable, begin, end))
            for number in range(0, 360, 7):
                moment = begin + number * MINUTE
                following = next((each for each in times if each > moment), None)
                if following is not None:
                    assert timetable.after(moment) == following, (line, moment)


# Half an hour, two hours, a change at midnight in both directions, one that goes against the summer, a day.
MORE_ZONES = (
    *ZONES,
    "Antarctica/Troll",
    "Africa/Cairo",
    "Atlantic/Azores",
    "Africa/Casablanca",
    "Pacific/Apia",
)


def clock_changes() -> st.SearchStrategy[tuple[str, datetime]]:
    pairs = [(name, each) for name in MORE_ZONES for each in changes(name, range(2010, 2013))]
    pairs += [("Australia/Lord_Howe", each) for each in changes("Australia/Lord_Howe", range(2026, 2029))]
    return st.sampled_from(pairs)


minute_fields = st.one_of(
    st.integers(2, 40).map(lambda step: f"*/{step}"),
    st.just("*"),
    st.lists(st.integers(0, 59), min_size=1, max_size=3).map(lambda given: ",".join(map(str, given))),
)
hour_fields = st.one_of(
    st.integers(2, 12).map(lambda step: f"*/{step}"),
    st.just("*"),
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(lambda given: ",".join(map(str, given))),
)


@given(st.deferred(clock_changes), minute_fields, hour_fields, st.integers(-3_000, 300), st.integers(0, 59))
@settings(max_examples=150, deadline=None)
def test_the_next_due_time_does_not_depend_on_where_one_starts(
    change: tuple[str, datetime], minute: str, hour: str, before: int, second: int
) -> None:
    name, at = change
    line = f"{minute} {hour} * * *"
    moment = at + before * MINUTE + timedelta(seconds=second)
    begin, end = min(at, moment) - timedelta(hours=26), max(at, moment) + timedelta(hours=30)
    begin = begin.replace(second=0)
    following = next((each for each in expected(line, name, begin, end) if each > moment), None)
    found = Timetable(line, name).after(moment)
    assert found is not None
    assert (found if found < end else None) == following, (name, line, moment)


def test_a_quarter_of_an_hour_is_not_skipped_the_day_after_half_an_hour_was_missing() -> None:
    found = Timetable("*/15 0 * * *", "Australia/Lord_Howe").within(
        datetime(2027, 10, 2, 14, 57, 33, tzinfo=UTC), datetime(2027, 10, 3, 15, tzinfo=UTC), 10
    )
    assert [f"{each:%d %H:%M}" for each in found] == ["03 13:00", "03 13:15", "03 13:30", "03 13:45"]


def each_until(timetable: Timetable, begin: datetime, end: datetime) -> Iterator[datetime]:
    for each in timetable.upcoming(begin):
        if each > end:
            return
        yield each


# --- the rest ---------------------------------------------------------------------------------------------

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_seconds_names_the_last_day_and_the_second_monday() -> None:
    assert shown("*/20 30 9 * * *", 4) == [
        "2026-01-01 09:30:00",
        "2026-01-01 09:30:20",
        "2026-01-01 09:30:40",
        "2026-01-02 09:30:00",
    ]
    assert shown("0 12 L FEB *", 1) == ["2026-02-28 12:00:00"]
    assert shown("0 12 * * MON#2", 2) == ["2026-01-12 12:00:00", "2026-02-09 12:00:00"]
    assert shown("0 12 * * 5L", 1) == ["2026-01-30 12:00:00"]
    assert shown("@weekly", 1) == ["2026-01-04 00:00:00"]


def shown(line: str, most: int) -> list[str]:
    found = first_times(Timetable(checked_cron(line)), START, most)
    return [each.strftime("%Y-%m-%d %H:%M:%S") for each in found]


def test_a_line_with_seconds_treats_the_missing_hour_like_one_without() -> None:
    with_seconds = Timetable("15 30 2 * * *", "Europe/Berlin")
    assert with_seconds.after(datetime(2026, 3, 29, 0, 0, tzinfo=UTC)) == datetime(
        2026, 3, 29, 1, 0, 15, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("*/61 * * * *", "its minute has a step of 61, which is never taken: it goes from 0 to 59"),
        ("0 0,*/25 * * *", "its hour has a step of 25"),
        ("*/90 * * * * *", "its second has a step of 90"),
        ("61 2 * * *", "its minute cannot be read; it takes 0 to 59, "),
        ("0 0 * * 8", "it takes 0 to 7 or SUN to SAT"),
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("61 * * * *", "minute"),
        ("* * * * MOON", "day-of-week"),
        ("0 0 30 2 *", "day-of-month"),
        ("*/0 * * * *", "minute"),
        ("@reboot", "unknown"),
        ("0 " * 60, "longer than"),
        ("٣ * * * *", "minute"),
    ],
)
def test_a_line_that_cannot_be_read_says_what_is_wrong(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checked_cron(line)


@pytest.mark.parametrize(
    "name", ["Mars/Base", "../etc/passwd", "/etc/localtime", "Europe", "", "a\0b", "x" * 500]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        zone(name)


def test_an_interval_is_counted_from_its_anchor() -> None:
    every = Timetable(every=timedelta(minutes=10), anchor=START)
    assert every.after(START) == START + timedelta(minutes=10)
    assert every.after(START - timedelta(minutes=25)) == START - timedelta(minutes=20)


def test_nothing_is_due_before_the_start_or_after_the_end() -> None:
    bounded = Timetable("0 * * * *", start=START, end=START + timedelta(hours=2))
    assert first_times(bounded, START - timedelta(days=9), 9) == [
        START,
        START + timedelta(hours=1),
        START + timedelta(hours=2),
    ]
    once = Timetable(at=START)
    assert (once.after(START - MINUTE), once.after(START)) == (START, None)


def test_the_last_due_time_is_found_without_walking_all_of_them() -> None:
    until = START + timedelta(days=900, seconds=30)
    each_second = Timetable("* * * * * *")
    assert each_second.last(START, until) == until
    yearly = Timetable("0 0 1 1 *")
    assert yearly.last(START, until) == datetime(2028, 1, 1, tzinfo=UTC)
    assert yearly.last(START, START + timedelta(days=3)) == START


def test_the_calendar_has_an_end() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert Timetable("0 0 * * *").after(last) is None


def test_a_line_can_be_said_in_words() -> None:
    assert in_words("@daily") == "At 00:00 every day"
