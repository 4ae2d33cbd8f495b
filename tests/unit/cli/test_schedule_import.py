"""`pipeweave schedule import-celery`: what it stores, what it leaves, and why."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served
from support.terminal import in_terminal

from pipeweave.cli import main

Call = Callable[..., Result]

APP = """
from celery import Celery
from celery.schedules import crontab, solar

app = Celery("shop", broker="memory://", set_as_current=False)
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "nightly report": {"task": "shop.tasks.report", "schedule": crontab(30, 2), "args": ("/srv",)},
    "by name": {"task": "shop.tasks.report", "schedule": 90, "kwargs": {"folder": "/tmp"}},
    "single": {"task": "mail", "schedule": 60.0, "options": {"queue": "slow"}},
    "sunset": {"task": "report", "schedule": solar.__new__(solar)},
    "unknown": {"task": "shop.tasks.gone", "schedule": 30},
    "too many": {"task": "report", "schedule": 30, "args": (1, 2)},
}


@app.on_after_finalize.connect
def more(sender, **_):
    sender.add_periodic_task(600.0, sender.signature("mail"), name="added later")
"""


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beaten_shop.py").write_text(APP)
    fields = [{"name": "folder", "label": "Folder", "type": "string"}]
    pipeline = {"id": "report", "version": 1, "spec": {"steps": [], "inputSchema": {"fields": fields}}}
    served.put("GET /api/pipelines", (200, {"pipelines": [{"id": "report"}], "nextCursor": None}))
    served.put("GET /api/pipelines/report", (200, {"pipeline": pipeline}))
    served.put("GET /api/tasks", (200, {"tasks": [{"id": "mail", "orphanedAt": None}], "nextCursor": None}))
    served.put("GET /api/schedules", (200, {"schedules": [], "nextCursor": None}))
    served.put("PUT /api/pipelines/mail", (201, {}))
    for name in ("nightly-report", "by-name", "single", "added-later"):
        served.put(f"PUT /api/schedules/celery:{name}", (201, {}))

    def call(*arguments: str) -> Result:
        given = ["schedule", "import-celery", *arguments, "--url", served.url, "--token", "t"]
        return CliRunner().invoke(main, given)

    yield call
    sys.modules.pop("beaten_shop", None)


def bodies(served: Served) -> dict[str, Any]:
    return {request[4:]: body for request, _, body in served.asked if request.startswith("PUT ")}


def rows_of(done: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.output)["schedules"]
    return found


def test_entries_become_schedules_and_the_others_say_why(served: Served, call: Call) -> None:
    done = call("--app", "beaten_shop:app", "--json")
    assert done.exit_code == 1
    rows = {each["entry"]: each for each in rows_of(done)}
    assert {name: each["state"] for name, each in rows.items()} == {
        "nightly report": "new",
        "by name": "new",
        "single": "new",
        "added later": "new",
        "sunset": "skipped",
        "unknown": "skipped",
        "too many": "skipped",
    }
    assert rows["single"]["why"] == "left out: queue"
    assert "sun" in rows["sunset"]["why"]
    assert "--map" in rows["unknown"]["why"]
    assert "1 named inputs" in rows["too many"]["why"]
    assert bodies(served) == {
        "/api/schedules/celery:nightly-report": {
            "pipelineId": "report",
            "cron": "30 2 * * *",
            "timeZone": "Europe/Berlin",
            "input": {"folder": "/srv"},
            "source": "celery",
        },
        "/api/schedules/celery:by-name": {
            "pipelineId": "report",
            "everyMs": 90_000,
            "input": {"folder": "/tmp"},
            "source": "celery",
        },
        "/api/pipelines/mail": {"steps": [{"task": "mail"}]},
        "/api/schedules/celery:single": {"pipelineId": "mail", "everyMs": 60_000, "source": "celery"},
        "/api/schedules/celery:added-later": {"pipelineId": "mail", "everyMs": 600_000, "source": "celery"},
    }


@pytest.mark.usefixtures("call")
def test_a_dry_run_stores_nothing_and_fits_into_eighty_columns(served: Served, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeweave.cli", "schedule", "import-celery", "--app", "beaten_shop:app"]
    more = ["--dry-run", "--url", served.url, "--token", "t"]
    shown = in_terminal([*command, *more], cwd=tmp_path, env=os.environ)
    assert bodies(served) == {}
    assert "celery:nightly-report" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.endswith("Nothing was stored (--dry-run).\n")


def a_stored(id: str, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": f"celery:{id}", "pipelineId": "report", "cron": None, "everyMs": 90_000}
    found |= {"at": None, "timeZone": "UTC", "input": {"folder": "/tmp"}, "missedPolicy": "one"}
    found |= {"overlapPolicy": "allow", "jitterMs": 0, "startAt": None, "endAt": None, "source": "celery"}
    return found | members


@pytest.mark.parametrize(
    ("members", "state"),
    [
        ({}, "unchanged"),
        ({"paused": True}, "unchanged"),
        ({"everyMs": 80_000}, "changed"),
        ({"everyMs": 80_000, "source": "api"}, "kept"),
    ],
)
def test_another_import_changes_only_what_is_its_own(
    served: Served, call: Call, members: dict[str, Any], state: str
) -> None:
    stored = [a_stored("by-name", **members), a_stored("gone")]
    served.put("GET /api/schedules", (200, {"schedules": stored, "nextCursor": None}))
    rows = {each["schedule"]: each for each in rows_of(call("--app", "beaten_shop:app", "--json"))}
    assert rows["celery:by-name"]["state"] == state
    assert rows["celery:gone"]["state"] == "left"
    assert ("/api/schedules/celery:by-name" in bodies(served)) == (state == "changed")


def test_a_task_may_be_mapped_to_a_pipeline(served: Served, call: Call) -> None:
    served.put("PUT /api/schedules/celery:unknown", (201, {}))
    call("--app", "beaten_shop", "--map", "shop.tasks.gone=report")
    assert bodies(served)["/api/schedules/celery:unknown"]["pipelineId"] == "report"


def test_an_input_that_the_pipeline_refuses_skips_that_entry_alone(served: Served, call: Call) -> None:
    problem = {"code": "INPUT_VALIDATION_FAILED", "detail": "input.folder: is wrong", "status": 400}
    served.put("PUT /api/schedules/celery:by-name", (400, problem))
    rows = {each["entry"]: each for each in rows_of(call("--app", "beaten_shop:app", "--json"))}
    assert rows["by name"]["state"] == "skipped"
    assert "is wrong" in rows["by name"]["why"]
    assert rows["single"]["state"] == "new"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--app", "nowhere:app"), "nowhere:app cannot be loaded"),
        (("--app", "json:loads"), "json:loads is no Celery app"),
        (("--app", "beaten_shop:app", "--map", "a"), "'a' is not TASK=PIPELINE"),
        (("--app", "beaten_shop:app", "--time-zone", "Mars"), "'Mars' is no time zone"),
    ],
)
def test_wrong_options_are_said_in_one_line(call: Call, arguments: tuple[str, ...], said: str) -> None:
    done = call(*arguments)
    assert done.exit_code != 0
    assert said in done.output
    assert "Traceback" not in done.output
