"""The schedule in a pipeline's document: what is read, and each mistake by its field."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from pipeweave.api.contract.schedules import ScheduleRequest
from pipeweave.errors import InvalidSpec
from pipeweave.spec import DeclaredSchedule, PipelineSpec, parse_spec, read_schedule


def spec(schedule: Any, **members: Any) -> PipelineSpec:
    return parse_spec({"id": "nightly", "steps": [{"task": "load"}], "schedule": schedule, **members})


FULL = {
    "cron": "30 2 * * *",
    "timeZone": "Europe/Berlin",
    "input": {"day": 1},
    "missedPolicy": "all",
    "overlapPolicy": "cancel-old",
    "jitterMs": 500,
    "startAt": "2027-01-01T00:00:00Z",
    "endAt": "2028-01-01T00:00:00Z",
    "paused": True,
}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("@daily", {"cron": "@daily"}),
        ({"everyMs": 90_000}, {"everyMs": 90_000}),
        ({"at": "2030-01-01T01:00:00+01:00", "input": None}, {"at": "2030-01-01T00:00:00Z"}),
        (FULL, FULL),
    ],
)
def test_a_schedule_reads_as_it_shows(given: Any, shown: dict[str, Any]) -> None:
    found = spec(given)
    assert found.to_json()["schedule"] == shown
    assert parse_spec(found.to_json()) == found


def test_a_schedule_is_no_part_of_the_version() -> None:
    plain = spec(None)
    assert plain.schedule is None
    assert spec("@daily").spec_hash == plain.spec_hash
    assert "schedule" not in spec("@daily").version_json()


def test_every_mistake_is_named_at_once() -> None:
    wrong = {
        "cron": "61 * * * *",
        "everyMs": 5,
        "at": "tomorrow",
        "timeZone": "Mars/North",
        "missedPolicy": "never",
        "overlapPolicy": ["skip"],
        "jitterMs": True,
        "startAt": "2027-01-01T00:00:00",
        "endAt": "1970-01-01T00:00:00Z",
        "paused": "yes",
        "input": {"big": "x" * 40_000},
        "timezone": "UTC",
    }
    with pytest.raises(InvalidSpec) as refused:
        spec(wrong, priority="high")
    fields = [each.field for each in refused.value.errors]
    expected = [*(f"schedule.{name}" for name in wrong), "schedule", "priority"]
    assert sorted(fields) == sorted(expected)
    assert refused.value.detail.startswith("pipeline 'nightly': ")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (5, "schedule"),
        ([], "schedule"),
        ("* * *", "schedule"),
        ({}, "schedule"),
        ({"cron": 5}, "schedule.cron"),
    ],
)
def test_a_schedule_is_a_cron_line_or_an_object(given: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(given)
    assert field in [each.field for each in refused.value.errors]


def test_the_end_does_not_lie_before_the_start() -> None:
    _, errors = read_schedule({**FULL, "endAt": "2026-01-01T00:00:00Z"})
    assert [(each.field, each.code) for each in errors] == [("schedule.endAt", "range")]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (None, "schedule.input.folder"),
        ({"folder": 5}, "schedule.input.folder"),
        ({"folder": "/srv", "fodler": 1}, "schedule.input.fodler"),
    ],
)
def test_the_pipeline_must_take_the_input(given: Any, field: str) -> None:
    fields = [{"name": "folder", "label": "Folder", "type": "string", "required": True}]
    schema = {"strict": True, "fields": fields}
    with pytest.raises(InvalidSpec) as refused:
        spec({"cron": "@daily", "input": given}, inputSchema=schema)
    assert [each.field for each in refused.value.errors] == [field]
    assert spec({"cron": "@daily", "input": {"folder": "/srv"}}, inputSchema=schema).schedule


@pytest.mark.parametrize(
    "given",
    [
        {"cron": "*/5 * * * *"},
        {"cron": "*/5 * * * * *", "timeZone": "Asia/Tokyo"},
        {"cron": "* * 31 2 *"},
        {"cron": "5"},
        {"everyMs": 999},
        {"everyMs": 1_000, "jitterMs": 86_400_000},
        {"everyMs": 1_000, "jitterMs": 86_400_001},
        {"everyMs": 31_622_400_001},
        {"at": "2030-01-01T00:00:00Z"},
        {"at": "3030-01-01T00:00:00Z"},
        {"at": "2030-01-01T00:00:00"},
        {"cron": "@daily", "at": "2030-01-01T00:00:00Z"},
        {"cron": "@daily", "timeZone": "Nowhere"},
        {"cron": "@daily", "overlapPolicy": "queue", "missedPolicy": "skip", "paused": False},
        {"cron": "@daily", "overlapPolicy": "later"},
        {**FULL, "endAt": "2026-01-01T00:00:00Z"},
        FULL,
    ],
)
def test_a_document_takes_what_the_api_takes(given: dict[str, Any]) -> None:
    try:
        ScheduleRequest.model_validate_json(json.dumps({**given, "pipelineId": "nightly"}))
        is_taken = True
    except ValidationError:
        is_taken = False
    found, errors = read_schedule(given)
    assert (found is not None, not errors) == (is_taken, is_taken)


def test_an_interval_counts_from_its_start_or_from_its_creation() -> None:
    created = datetime(2027, 1, 1, tzinfo=UTC)
    assert DeclaredSchedule(every_ms=60_000).times(created).after(created).minute == 1  # type: ignore[union-attr]
