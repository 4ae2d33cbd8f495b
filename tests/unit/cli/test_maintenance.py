"""`pipeweave maintenance` and `pipeweave tick`: what they ask, what they print, how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.cli import maintenance as commands
from pipeweave.errors import Conflict, InvalidSetting
from pipeweave.ids import RUN, new_id, show

Call = Callable[..., Result]

ENTER, REQUEST, EXIT = (f"POST /api/maintenance/{verb}" for verb in ("enter", "request", "exit"))


def blocking(pipeline: str | None = "report", **more: Any) -> dict[str, Any]:
    counts = {"running": 1, "queued": 2, "ready": 0, "waiting": 0, "pending": 5}
    return {
        "id": show(RUN, new_id()),
        "tenant": "default",
        "pipelineId": pipeline,
        "taskId": None if pipeline else "send-mail",
        "status": "running",
        "createdAt": "2026-11-20T12:00:00.000Z",
        "age": 12.5,
        "taskRuns": counts,
        **more,
    }


def state(mode: str, *runs: dict[str, Any], total: int | None = None, **more: Any) -> tuple[int, Any]:
    document = {
        "mode": mode,
        "canEnterMaintenance": mode == "waiting_for_maintenance" and not runs,
        "pendingTasks": 2,
        "runningTasks": 1,
        "modeChangedAt": "2026-11-20T12:00:00.000Z",
        "reason": None,
        "message": "That is how it is.",
        "blocking": list(runs),
        "blockingTotal": len(runs) if total is None else total,
        "emptyInMs": None,
    }
    return 200, {**document, **more}


WAITING, MAINTENANCE = "waiting_for_maintenance", "maintenance"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    monkeypatch.setattr(commands, "POLL_INTERVAL_S", 0.01)

    def called(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    return called


def test_status_shows_the_mode_and_what_is_open(served: Served, call: Call) -> None:
    served.put("GET /api/maintenance", state(WAITING, blocking(), blocking(None), reason="new disks"))
    result = call("maintenance", "status")
    assert result.exit_code == 0
    fields = dict(line.split(None, 1) for line in result.stdout.splitlines()[:1])
    assert fields == {"mode": WAITING}
    assert "new disks" in result.stdout
    assert "That is how it is." in result.stdout
    report, mail = result.stdout.splitlines()[-2:]
    assert report.split()[1:] == ["default", "report", "running", "12.5", "s", "1", "2", "0", "0", "5"]
    assert "task send-mail" in mail


@pytest.mark.parametrize(("left", "said"), [(125_000.0, "about 2 min 5 s"), (None, "unknown")])
def test_status_says_about_how_long_it_takes(
    served: Served, call: Call, left: float | None, said: str
) -> None:
    served.put("GET /api/maintenance", state(WAITING, blocking(), emptyInMs=left))
    lines = [line.split(None, 2) for line in call("maintenance", "status").stdout.splitlines()]
    assert ["empty", "in", said] in lines


def test_status_says_no_time_when_nothing_is_open(served: Served, call: Call) -> None:
    served.put("GET /api/maintenance", state("running", emptyInMs=0.0))
    assert "empty in" not in call("maintenance", "status").stdout


def test_status_in_json_is_the_answer(served: Served, call: Call) -> None:
    served.put("GET /api/maintenance", state("running"))
    assert json.loads(call("maintenance", "status", "--json").stdout) == state("running")[1]


def test_the_limit_is_shown_set_and_removed(served: Served, call: Call) -> None:
    shown = {"maxRunningTaskRuns": 30, "runningTaskRuns": 7}
    served.put("GET /api/deployment/limit", (200, shown))
    served.put("PUT /api/deployment/limit", (200, {**shown, "maxRunningTaskRuns": None}))
    assert [line.split()[-1] for line in call("maintenance", "limit").stdout.splitlines()] == ["30", "7"]
    assert "unlimited" in call("maintenance", "limit", "--none").stdout
    assert call("maintenance", "limit", "--max-running", "5").exit_code == 0
    bodies = [body for request, _, body in served.asked if request.startswith("PUT")]
    assert bodies == [{"maxRunningTaskRuns": None}, {"maxRunningTaskRuns": 5}]
    both = call("maintenance", "limit", "--none", "--max-running", "5")
    assert (both.exit_code, both.stdout) == (2, "")


@pytest.mark.parametrize(("verb", "path"), [("request", REQUEST), ("enter", ENTER), ("exit", EXIT)])
def test_a_verb_sends_its_reason(served: Served, call: Call, verb: str, path: str) -> None:
    served.put(path, state(MAINTENANCE))
    assert call("maintenance", verb, "--reason", "new disks").exit_code == 0
    assert call("maintenance", verb).exit_code == 0
    assert [body for _, _, body in served.asked] == [{"reason": "new disks"}, {}]


@pytest.mark.parametrize(("mode", "code"), [(WAITING, 1), (MAINTENANCE, 0)])
def test_entering_succeeds_only_when_maintenance_has_begun(
    served: Served, call: Call, mode: str, code: int
) -> None:
    served.put(ENTER, state(mode, *([blocking()] if mode == WAITING else [])))
    assert call("maintenance", "enter").exit_code == code
    assert call("maintenance", "enter", "--json").exit_code == code


def test_a_refusal_is_one_line(served: Served, call: Call) -> None:
    problem = Conflict("maintenance was not requested", hint="request it first").to_problem()
    served.put(EXIT, (409, problem))
    result = call("maintenance", "exit")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "pipeweave: CONFLICT: maintenance was not requested; request it first\n"


def test_waiting_tells_each_change_of_what_blocks_until_maintenance_has_begun(
    served: Served, call: Call
) -> None:
    runs = [blocking(f"p{number}") for number in range(4)]
    served.put(REQUEST, state(WAITING, *runs, total=30))
    served.put(
        ENTER,
        state(WAITING, *runs, total=30),
        state(WAITING, runs[0]),
        state(WAITING, runs[0]),
        state(MAINTENANCE),
    )
    result = call("maintenance", "request", "--wait")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    named = ", ".join(f"{each['id']} ({each['pipelineId']}, running)" for each in runs[:3])
    assert lines[:2] == [f"30 unfinished: {named}, 27 more", f"1 unfinished: {runs[0]['id']} (p0, running)"]
    assert lines[2].split() == ["mode", MAINTENANCE]


def test_waiting_in_json_prints_only_the_end(served: Served, call: Call) -> None:
    served.put(ENTER, state(WAITING, blocking()), state(MAINTENANCE))
    result = call("maintenance", "enter", "--wait", "--json")
    assert (result.exit_code, json.loads(result.stdout)["mode"]) == (0, MAINTENANCE)


def test_waiting_no_longer_than_asked(served: Served, call: Call) -> None:
    served.put(REQUEST, state(WAITING, blocking()))
    served.put(ENTER, state(WAITING, blocking()))
    result = call("maintenance", "request", "--wait", "--timeout", "0.1")
    assert result.exit_code == 1
    assert "WAIT_TIMEOUT" in result.stderr
    assert "maintenance exit" in result.stderr


def test_waiting_ends_when_someone_takes_the_request_back(served: Served, call: Call) -> None:
    served.put(REQUEST, state(WAITING, blocking()))
    served.put(ENTER, (409, Conflict("maintenance was not requested").to_problem()))
    result = call("maintenance", "request", "--wait")
    assert result.exit_code == 1
    assert "was not requested" in result.stderr


def test_a_timeout_without_waiting_is_wrong_usage_and_asks_nothing(served: Served, call: Call) -> None:
    result = call("maintenance", "request", "--timeout", "3")
    assert (result.exit_code, served.asked) == (2, [])


def test_a_tick_says_what_it_did(served: Served, call: Call) -> None:
    did = {"republished": 2, "joinsChecked": 0}
    answer = {"status": "ok", "processed": 2, "did": did, "message": "Something was lost.", "timestamp": "…"}
    served.put("POST /api/tick", (200, answer))
    result = call("tick")
    assert result.stdout.splitlines() == ["2 processed. Something was lost.", "  republished: 2"]
    assert json.loads(call("tick", "--json").stdout) == answer


def test_no_beat_runs_in_serverless_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setenv("MODE", "serverless")
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/none")
    monkeypatch.setenv("BROKER_URL", "redis://localhost/0")
    result = call("beat")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f"pipeweave: {InvalidSetting.code}: beat does not run with MODE=serverless"
    )
    assert len(result.stderr.splitlines()) == 1
