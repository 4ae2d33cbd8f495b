"""`@pipeline(schedule=…)`: a cron line or a Schedule."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeweave import Schedule, pipeline, task
from pipeweave.errors import InvalidSpec
from pipeweave.spec import DeclaredSchedule
from pipeweave.testing import due_times


@task
def schedule_test_count(folder: str) -> int:
    return len(folder)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process forget the pipelines of a test, some of which are wrong."""
    monkeypatch.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})


def a_pipeline(schedule: Any) -> Any:
    @pipeline(schedule=schedule)
    def scheduled(folder: str = "/srv") -> int:
        return schedule_test_count(folder)

    return scheduled


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ("*/5 * * * *", DeclaredSchedule(cron="*/5 * * * *")),
        (Schedule(every="15m"), DeclaredSchedule(every_ms=900_000)),
        (Schedule(every=90, jitter="5s"), DeclaredSchedule(every_ms=90_000, jitter_ms=5_000)),
        (
            Schedule(every=timedelta(hours=1), jitter=timedelta(seconds=2), paused=True),
            DeclaredSchedule(every_ms=3_600_000, jitter_ms=2_000, paused=True),
        ),
        (
            Schedule(at=datetime(2030, 1, 1, tzinfo=UTC)),
            DeclaredSchedule(at=datetime(2030, 1, 1, tzinfo=UTC)),
        ),
        (
            Schedule(
                cron="@daily",
                time_zone="Europe/Berlin",
                input={"folder": "/tmp"},
                missed="all",
                overlap="queue",
                start_at="2027-01-01T00:00:00Z",
                end_at=datetime(2028, 1, 1, tzinfo=UTC),
            ),
            DeclaredSchedule(
                cron="@daily",
                time_zone="Europe/Berlin",
                input={"folder": "/tmp"},
                missed="all",
                overlap="queue",
                start_at=datetime(2027, 1, 1, tzinfo=UTC),
                end_at=datetime(2028, 1, 1, tzinfo=UTC),
            ),
        ),
        (None, None),
    ],
)
def test_a_pipeline_declares_a_schedule(given: Any, declared: DeclaredSchedule | None) -> None:
    assert a_pipeline(given).spec.schedule == declared


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, [""]),
        ({"cron": "x", "time_zone": "Mars"}, ["cron", "time_zone"]),
        ({"every": 0.5}, ["every"]),
        ({"every": 5_000_000_000}, ["every"]),
        (
            {"every": "soon", "jitter": "2d", "missed": "no", "overlap": "no"},
            ["every", "missed", "overlap", "jitter"],
        ),
        ({"at": datetime(2030, 1, 1), "cron": "@daily"}, ["at", ""]),
        (
            {"cron": "@daily", "start_at": "2030-01-01T00:00:00Z", "end_at": "2029-01-01T00:00:00Z"},
            ["end_at"],
        ),
        ({"cron": "@daily", "input": {1, 2}, "paused": 1}, ["input", "paused"]),
    ],
)
def test_every_wrong_argument_is_named(options: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InvalidSpec) as refused:
        Schedule(**options)
    assert [each.field for each in refused.value.errors] == fields
    assert refused.value.detail.startswith("Schedule: ")


@pytest.mark.parametrize("given", ["*/5 * * *", Schedule(cron="@daily", input={"folder": 5}), 5])
def test_a_mistake_names_the_pipeline_its_file_and_its_line(given: Any) -> None:
    made = a_pipeline(given)
    with pytest.raises(InvalidSpec) as refused:
        _ = made.spec
    assert refused.value.detail.startswith("pipeline 'scheduled': schedule")
    assert f"({__file__}:{made.fn.__code__.co_firstlineno})" in refused.value.detail


def test_a_test_can_ask_when_a_pipeline_is_due() -> None:
    after = datetime(2027, 1, 1, 0, 1, tzinfo=UTC)
    found = due_times(a_pipeline("*/5 * * * *"), after, 2)
    assert found == [after.replace(minute=5), after.replace(minute=10)]
    assert due_times({"id": "a", "steps": [{"task": "t"}], "schedule": {"everyMs": 60_000}}, after, 1) == [
        after.replace(minute=2)
    ]
    with pytest.raises(InvalidSpec, match="declares no schedule"):
        due_times(a_pipeline(None), after)
