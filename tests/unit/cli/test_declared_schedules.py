"""`pipelines show` and `dry-run` say when runs of a pipeline begin by themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main

Call = Callable[..., Result]
SPEC = {"steps": [{"id": "load", "task": "load", "needs": []}]}
TIMES = {"cron": None, "everyMs": None, "at": None, "timeZone": "UTC", "paused": False}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


@pytest.mark.parametrize(
    ("schedules", "said"),
    [
        ([], None),
        (
            [
                {**TIMES, "id": "nightly", "cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
                {**TIMES, "id": "often", "everyMs": 90_000, "paused": True},
            ],
            "nightly (30 2 * * * Europe/Berlin), often (every 90 s UTC, paused)",
        ),
    ],
)
def test_a_pipeline_is_shown_with_its_schedules(
    served: Served, call: Call, schedules: list[dict[str, Any]], said: str | None
) -> None:
    served.put(
        "GET /api/pipelines/nightly", (200, {"pipeline": {"id": "nightly", "version": 1, "spec": SPEC}})
    )
    served.put("GET /api/schedules?pipelineId=nightly", (200, {"schedules": schedules, "nextCursor": None}))
    done = call("pipelines", "show", "nightly")
    assert done.exit_code == 0, done.output
    assert ("schedules" in done.output) == (said is not None)
    assert said is None or said in done.output


@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        (None, None),
        (
            {"nextFires": ["2027-01-01T00:00:00.000Z"], "text": "At 00:00"},
            "schedule: At 00:00; next (UTC): 2027-01-01 00:00:00",
        ),
        ({"nextFires": [], "text": None}, "schedule: next (UTC): never"),
    ],
)
def test_a_plan_says_when_runs_begin_by_themselves(
    served: Served, call: Call, schedule: dict[str, Any] | None, line: str | None
) -> None:
    plan = {"valid": True, "errors": [], "warnings": [], "executionPlan": [], "validationErrors": {}}
    served.put("POST /api/pipelines/nightly/dry-run", (200, {**plan, "schedule": schedule}))
    done = call("dry-run", "nightly")
    assert done.exit_code == 0, done.output
    assert (line in done.output.splitlines()) if line else ("schedule" not in done.output)
