"""The examples on the page about schedules do what it says."""

from __future__ import annotations

import json
import re
import runpy
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.pages import ROOT

from pipeweave.api.contract.schedules import ScheduleRequest
from pipeweave.spec import parse_spec, read_schedule
from pipeweave.spec.timetable import checked_cron
from pipeweave.testing import due_times

PAGE = (ROOT / "docs/schedules.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the program on the page defines; the process forgets it after the test."""
    for module, name in (("task", "_registry"), ("task", "_duplicates"), ("pipeline", "_registry")):
        monkeypatch.setattr(sys.modules[f"pipeweave.authoring.{module}"], name, {})
    file = tmp_path / "scheduled_page.py"
    file.write_text(block("python"))
    return runpy.run_path(str(file))


@pytest.mark.parametrize(
    ("name", "due"),
    [
        ("every_five_minutes", datetime(2027, 3, 28, 0, 5, tzinfo=UTC)),
        # The hour is missing: right after the gap.
        ("nightly", datetime(2027, 3, 28, 1, tzinfo=UTC)),
    ],
)
def test_the_pipelines_on_the_page_are_due_when_it_says(
    program: dict[str, Any], name: str, due: datetime
) -> None:
    assert due_times(program[name], datetime(2027, 3, 28, tzinfo=UTC), 1) == [due]


def test_the_request_on_the_page_is_one_and_a_document_takes_it_too() -> None:
    given = json.loads(block("json"))
    assert ScheduleRequest.model_validate_json(json.dumps(given)).cron == given["cron"]
    document = {"id": given.pop("pipelineId"), "steps": [{"task": "count"}], "schedule": given}
    assert parse_spec(document).schedule == read_schedule(given)[0]


@pytest.mark.parametrize("line", re.findall(r"`((?:[0-9*@][^`\s]*)(?: [^`\s]+){4,5}|@[a-z]+)`", PAGE))
def test_every_cron_line_on_the_page_can_be_read(line: str) -> None:
    assert checked_cron(line)
