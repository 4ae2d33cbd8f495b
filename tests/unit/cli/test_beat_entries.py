"""Entries of Celery's beat_schedule as schedules: due exactly when Celery says, or refused with a reason."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar

from pipeweave.cli.support.beat_entries import NotImportable, entries_of, times_of
from pipeweave.ids import check_name
from pipeweave.spec import read_schedule

ALIGNED = "2000-01-01T00:00:00Z"
START = datetime(2027, 2, 20, tzinfo=UTC)


def an_app(**conf: Any) -> Celery:
    app = Celery("beaten", broker="memory://", set_as_current=False)
    app.conf.update(conf)
    return app


def by_celery(app: Celery, given: dict[str, Any], after: datetime) -> datetime:
    """When Celery's own crontab is due next: asked right after a run at this moment."""
    line = crontab(**given, nowfun=lambda: after, app=app)
    return (after + line.remaining_estimate(after)).astimezone(UTC)


def times(given: dict[str, Any], app: Celery | None = None) -> dict[str, Any]:
    entry = {"task": "t", "schedule": crontab(**given)}
    return dict(entries_of(app or an_app(beat_schedule={"e": entry}))[0].times)


def agree(given: dict[str, Any], zone: str = "UTC", count: int = 30) -> None:
    app = an_app(timezone=zone, beat_schedule={"e": {"task": "t", "schedule": crontab(**given)}})
    (entry,) = entries_of(app)
    assert entry.reason is None, (given, entry.reason)
    found, errors = read_schedule(entry.times)
    assert found is not None, errors
    timetable = found.times(START)
    moment = START.astimezone(ZoneInfo(zone))
    for _ in range(count):
        expected = by_celery(app, given, moment)
        assert timetable.after(moment) == expected, (given, entry.times)
        moment = expected.astimezone(ZoneInfo(zone))


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        ({}, "* * * * *"),
        ({"minute": 0}, "0 * * * *"),
        ({"minute": "*/15", "hour": "8-17"}, "*/15 8-17 * * *"),
        ({"minute": "*/7", "hour": "2-5,9"}, "*/7 2-5,9 * * *"),
        ({"minute": 0, "hour": 0, "day_of_week": "mon-fri"}, "0 0 * * 1-5"),
        ({"minute": 0, "hour": "*/6", "day_of_week": "sun,6"}, "0 */6 * * 0,6"),
        ({"minute": 0, "hour": 0, "day_of_month": "1", "month_of_year": "*/3"}, "0 0 1 */3 *"),
        ({"minute": 0, "hour": 0, "day_of_month": "29-31"}, "0 0 29-31 * *"),
        ({"minute": 0, "hour": 0, "day_of_month": "1-7", "day_of_week": "mon"}, "0 0 */31,2-7 * 1"),
        ({"minute": 0, "hour": 0, "day_of_month": "15-21", "day_of_week": "fri"}, "0 0 * * 5#3"),
        ({"minute": 0, "hour": 0, "day_of_month": "13", "day_of_week": "sun,tue"}, "0 0 13 * */7,2"),
        ({"minute": 0, "hour": 0, "day_of_month": "*/2", "day_of_week": "fri"}, "0 0 */2 * 5"),
    ],
)
def test_a_crontab_becomes_the_line_that_celery_means(given: dict[str, Any], cron: str) -> None:
    assert times(given) == {"cron": cron}
    agree(given)


@pytest.mark.parametrize("seed", range(40))
def test_random_crontabs_are_due_when_celery_says(seed: int) -> None:
    chance = random.Random(seed)

    def some(every: range, most: int) -> Any:
        return "*" if chance.random() < 0.4 else set(chance.sample(every, chance.randint(1, most)))

    given = {
        "minute": some(range(60), 5),
        "hour": some(range(24), 6),
        "day_of_month": some(range(1, 29), 6),
        "month_of_year": some(range(1, 13), 6),
        "day_of_week": some(range(7), 4),
    }
    if given["day_of_month"] != "*" and given["day_of_week"] != "*":
        given["day_of_month"].add(1)
    agree(given, chance.choice(["UTC", "Asia/Kolkata"]), count=10)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (solar.__new__(solar), "the sun"),
        (crontab(0, 0, day_of_month="13", day_of_week="fri"), "both its days"),
        (crontab(minute={*range(0, 40, 3), 1, 5}, hour={*range(0, 23, 2), 3}), None),
        (crontab(minute=set(range(0, 60, 2)) - {4} | {7, 11}, hour=set(range(0, 24, 2)) - {4} | {7}), "100"),
        (timedelta(milliseconds=500), "1 second"),
        (timedelta(days=400), "1 second"),
        (0, "1 second"),
        (True, "only Celery"),
        (type("Mine", (schedule,), {})(timedelta(hours=1)), "only Celery can say when a Mine is due"),
    ],
)
def test_what_no_schedule_can_stand_for_is_refused(given: Any, reason: str | None) -> None:
    if reason is None:
        assert times_of(given, False, lambda: "UTC")
        return
    with pytest.raises(NotImportable, match=reason):
        times_of(given, False, lambda: "UTC")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (30, {"everyMs": 30_000}),
        (1.5, {"everyMs": 1_500}),
        (timedelta(hours=1), {"everyMs": 3_600_000}),
        (schedule(timedelta(minutes=5)), {"everyMs": 300_000}),
        (
            schedule(timedelta(hours=1), relative=True),
            {"everyMs": 3_600_000, "startAt": ALIGNED},
        ),
    ],
)
def test_an_interval_stays_one(given: Any, shown: dict[str, Any]) -> None:
    assert times_of(given, False, lambda: "UTC") == shown


@pytest.mark.parametrize(
    ("conf", "zone"),
    [
        ({}, None),
        ({"timezone": "Europe/Berlin"}, "Europe/Berlin"),
        ({"timezone": ZoneInfo("Asia/Tokyo"), "enable_utc": False}, "Asia/Tokyo"),
    ],
)
def test_a_crontab_is_read_in_the_zone_of_its_app(conf: dict[str, Any], zone: str | None) -> None:
    app = an_app(beat_schedule={"e": {"task": "t", "schedule": crontab()}}, **conf)
    assert entries_of(app)[0].times.get("timeZone") == zone
    assert entries_of(app, "Asia/Kathmandu")[0].times["timeZone"] == "Asia/Kathmandu"


def test_local_time_needs_a_zone_for_crontabs_only() -> None:
    listed = {"a": {"task": "t", "schedule": crontab()}, "b": {"task": "t", "schedule": 30}}
    first, second = entries_of(an_app(enable_utc=False, beat_schedule=listed))
    assert first.reason is not None
    assert "--time-zone" in first.reason
    assert second.reason is None


def test_entries_have_ids_by_their_names() -> None:
    names = ["every night", "every/night", "é" * 300, "every-night", "plain.name"]
    app = an_app(beat_schedule={each: {"task": "t", "schedule": 30} for each in names})
    found = {each.name: each.id for each in entries_of(app)}
    assert found["plain.name"] == "celery:plain.name"
    assert len(set(found.values())) == len(names)
    assert all(check_name(each, "id") for each in found.values())
    assert {each.name: each.id for each in entries_of(app)} == found


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"task": "t"}, "no task or no schedule"),
        ("t", "no task or no schedule"),
        ({"task": "t", "schedule": 30, "kwargs": {"at": START}}, "not JSON"),
    ],
)
def test_an_entry_that_says_too_little_is_listed_with_its_reason(entry: Any, reason: str) -> None:
    (found,) = entries_of(an_app(beat_schedule={"e": entry}))
    assert found.reason is not None
    assert reason in found.reason


def test_an_entry_keeps_its_arguments_and_names_its_options() -> None:
    options = {"queue": "slow", "expires": 60, "ignore_result": True}
    entry = {"task": "t", "schedule": 30, "args": (1, 2), "kwargs": {"a": 3}, "options": options}
    (found,) = entries_of(an_app(beat_schedule={"e": entry}))
    assert (found.args, found.kwargs, found.options) == ((1, 2), {"a": 3}, ("expires", "queue"))
