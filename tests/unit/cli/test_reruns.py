"""`rerun` and `replay`: what they send and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main, replay
from pipeweave.ids import RUN, TASK_RUN, new_id, run_id_of, show, task_run_id

Call = Callable[..., Result]
OLD, NEW = run_id_of(new_id()), run_id_of(new_id())
OLD_ID, NEW_ID = show(RUN, OLD), show(RUN, NEW)
STEP_ID = show(TASK_RUN, task_run_id(OLD, 1))
MADE = {
    "pipelineRunId": NEW_ID,
    "pipelineId": "report",
    "status": "running",
    "rerunOf": OLD_ID,
    "reusedSteps": ["a", "b"],
}
EVENTS = [
    {"seq": 1, "at": "2026-11-22T12:00:00Z", "type": "run.created", "data": {"steps": 1}},
    {
        "seq": 2,
        "at": "2026-11-22T12:00:01Z",
        "type": "task_run.started",
        "taskRunId": STEP_ID,
        "attempt": 2,
        "data": {"worker": "\x1b[31mw1"},
    },
]


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    served.put(f"POST /api/runs/{OLD_ID}/rerun", (200, MADE))
    served.put(f"GET /api/runs/{OLD_ID}/events?limit=500", (200, {"events": EVENTS, "nextCursor": None}))
    served.put(
        f"GET /api/runs/{OLD_ID}",
        (200, {"id": OLD_ID, "status": "failed", "steps": [{"id": "charge", "taskRunId": STEP_ID}]}),
    )
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_a_rerun_says_what_it_reuses(call: Call) -> None:
    result = call("rerun", OLD_ID, "--from", "c", "--version", "2", "-i", "null")
    assert (result.exit_code, result.stdout) == (0, f"{NEW_ID} running, reuses the results of a, b\n")
    assert json.loads(call("rerun", OLD_ID, "--json").stdout) == MADE


@pytest.mark.parametrize(("written", "sent"), [('{"amount": 5}', {"amount": 5}), ("null", None)])
def test_a_rerun_sends_edited_params_and_says_what_is_edited(
    served: Served, call: Call, written: str, sent: object
) -> None:
    edits = {"params": {"c": {"amount": 5}}, "otherInput": ["a"]}
    served.put(f"POST /api/runs/{OLD_ID}/rerun", (200, {**MADE, "edits": edits}))
    result = call("rerun", OLD_ID, "--from", "c", "--params", written)
    assert served.asked[-1][2] == {"fromStep": "c", "params": sent}
    assert result.stdout.splitlines()[1:] == [
        "edited: the params of c",
        "edited: the input; kept results have read another: a",
    ]
    assert call("rerun", OLD_ID, "--from", "c", "--params", "{").exit_code == 2


def test_a_refused_rerun_is_one_line(served: Served, call: Call) -> None:
    problem = {"code": "CONFLICT", "detail": f"run {OLD_ID} is running", "status": 409}
    served.put(f"POST /api/runs/{OLD_ID}/rerun", (409, problem))
    result = call("rerun", OLD_ID)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "CONFLICT" in result.stderr


def outcome(code: str | None = None) -> dict[str, object]:
    made = NEW_ID if code is None else None
    return {
        "runId": OLD_ID,
        "pipelineRunId": made,
        "created": made is not None,
        "errorCode": code,
        "error": code,
    }


def test_all_that_match_run_again_page_after_page(served: Served, call: Call) -> None:
    first = {"dryRun": False, "runs": [outcome()], "nextCursor": "older"}
    last = {"dryRun": False, "runs": [outcome("CONFLICT")], "nextCursor": None}
    served.put("POST /api/runs/rerun-all", (200, first), (200, last))
    arguments = ("--status", "failed", "--pipeline", "report", "--from", "c", "--run-token", "t")
    result = call("rerun", *arguments, "--created-after", "2026-11-22T12:00:00Z")
    assert (result.exit_code, result.stdout) == (1, "1 runs run again\n")
    assert result.stderr == f"{OLD_ID}: CONFLICT: CONFLICT\n"
    asked = {"status": "failed", "pipelineId": "report", "fromStep": "c", "runToken": "t", "dryRun": False}
    asked["createdAfter"] = "2026-11-22T12:00:00Z"
    assert [each[2] for each in served.asked] == [asked, {**asked, "cursor": "older"}]


def test_a_dry_run_names_what_would_run_again(served: Served, call: Call) -> None:
    answer = {"dryRun": True, "runs": [outcome()], "nextCursor": None}
    served.put("POST /api/runs/rerun-all", (200, answer))
    result = call("rerun", "--status", "failed", "--dry-run")
    assert (result.exit_code, result.stdout) == (0, f"1 runs would run again\n{OLD_ID}\n")
    assert json.loads(call("rerun", "--status", "failed", "--dry-run", "--json").stdout)["dryRun"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give RUN or --status"),
        ([OLD_ID, "--status", "failed"], "cannot be combined"),
        (["--status", "failed", "-i", "1"], "cannot be combined"),
        ([OLD_ID, "--dry-run"], "need --status"),
        (["--status", "running"], "'running' is not one of"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(
    served: Served, call: Call, arguments: list[str], said: str
) -> None:
    result = call("rerun", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert served.asked == []


def test_in_a_pipe_all_events_are_printed_without_control_characters(call: Call) -> None:
    lines = call("replay", OLD_ID).stdout.splitlines()
    assert lines[0] == "1 2026-11-22T12:00:00Z run.created steps=1"
    assert lines[1].startswith("2 2026-11-22T12:00:01Z task_run.started charge attempt 2 worker=")
    assert "\x1b" not in lines[1]


@pytest.mark.parametrize(("keys", "shown"), [("q", 1), ("xnq", 2), ("a", 2), ("\r\r", 2)])
def test_on_a_terminal_a_key_shows_the_next_event(
    call: Call, monkeypatch: pytest.MonkeyPatch, keys: str, shown: int
) -> None:
    pressed = iter(keys)
    monkeypatch.setattr(replay.click, "getchar", lambda: next(pressed))
    monkeypatch.setattr(replay, "_is_terminal", lambda: True)
    assert len(call("replay", OLD_ID).stdout.splitlines()) == shown
