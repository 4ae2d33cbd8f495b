"""A week of schedules: each time stands where the clocks of the zone show it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from pipeweave.api.ui.schedule_week import Week

BERLIN = ZoneInfo("Europe/Berlin")
FORWARD, BACK = date(2026, 3, 29), date(2026, 10, 25)
NOW = datetime(2026, 3, 29, 23, 30, tzinfo=UTC)


def fire(at: str) -> dict[str, str]:
    return {"at": at, "scheduleId": "nightly"}


def test_a_week_begins_on_a_monday_at_midnight_of_its_zone() -> None:
    week = Week.of(FORWARD, BERLIN)
    assert (week.monday, week.begin.isoformat()) == (date(2026, 3, 23), "2026-03-22T23:00:00+00:00")
    assert (week.end - week.begin).total_seconds() == 167 * 3_600
    assert Week.of(date(2026, 3, 23), BERLIN) == week


def test_a_day_says_when_its_clocks_change() -> None:
    changes = [each.change for each in Week.of(FORWARD, BERLIN).days(NOW)]
    assert changes == [""] * 6 + ["clocks go forward: this day has 23 hours"]
    assert Week.of(BACK, BERLIN).days(NOW)[6].change == "clocks go back: this day has 25 hours"
    assert not any(each.change for each in Week.of(FORWARD, ZoneInfo("UTC")).days(NOW))


def test_today_is_that_of_the_zone() -> None:
    assert not any(each.is_today for each in Week.of(FORWARD, BERLIN).days(NOW)), "it is Monday there"
    assert Week.of(FORWARD, ZoneInfo("UTC")).days(NOW)[6].is_today


def test_hours_in_which_nothing_is_due_are_folded() -> None:
    rows = Week.of(FORWARD, BERLIN).rows(
        [fire("2026-03-23T01:30:00.000Z"), fire("2026-03-24T22:59:59.000Z")], NOW
    )
    assert [(each.hour, each.until, bool(each.cells)) for each in rows] == [
        (0, 2, False),
        (2, 3, True),
        (3, 23, False),
        (23, 24, True),
    ]
    assert [each["clock"] for each in rows[1].cells[0].fires] == ["02:30"]
    assert [each["clock"] for each in rows[3].cells[1].fires] == ["23:59"]


def test_an_hour_that_the_clocks_skip_is_marked() -> None:
    rows = Week.of(FORWARD, BERLIN).rows([fire("2026-03-23T01:30:00.000Z")], NOW)
    assert [each.is_missing for each in rows[1].cells] == [False] * 6 + [True]


def test_an_hour_that_comes_twice_has_the_times_of_both() -> None:
    rows = Week.of(BACK, BERLIN).rows(
        [fire("2026-10-25T00:30:00.000Z"), fire("2026-10-25T01:30:00.000Z")], NOW
    )
    [row] = [each for each in rows if each.cells]
    assert [(each["clock"], each["zone"]) for each in row.cells[6].fires] == [
        ("02:30", "CEST"),
        ("02:30", "CET"),
    ]


def test_a_week_without_anything_is_one_stretch() -> None:
    assert [(each.hour, each.until) for each in Week.of(FORWARD, BERLIN).rows([], NOW)] == [(0, 24)]


def test_the_hour_of_now_is_marked_by_the_clocks_of_the_zone_also_if_nothing_is_due() -> None:
    now = datetime(2026, 3, 26, 13, 32, tzinfo=UTC)
    rows = Week.of(FORWARD, BERLIN).rows([], now)
    assert [(each.hour, each.until, bool(each.cells)) for each in rows] == [
        (0, 14, False),
        (14, 15, True),
        (15, 24, False),
    ]
    assert [each.now for each in rows[1].cells] == ["", "", "", "14:32", "", "", ""]
