"""`pipeweave signal | waiting | approve | wait`: what they ask, what they print, how they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, TASK_RUN, new_id, show

Call = Callable[..., Result]

RUN_ID, WAIT = show(RUN, new_id()), show(TASK_RUN, new_id())
SENT = {"signalId": "s", "taken": True, "isRepeated": False}
STATE: dict[str, Any] = {"taskRunId": WAIT, "runId": RUN_ID, "status": "completed"}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def test_a_signal_goes_to_a_run_with_its_payload(call: Call, served: Served) -> None:
    served.put(f"POST /api/runs/{RUN_ID}/signals/paid", (202, SENT), (202, {**SENT, "taken": False}))
    assert call("signal", RUN_ID, "paid", "-i", '{"amount": 12}').output == "paid is sent and taken\n"
    assert served.asked[0][2] == {"amount": 12}
    assert call("signal", RUN_ID, "paid").output == "paid is sent; no step waits for it yet\n"


def test_a_signal_goes_to_the_run_with_a_token(call: Call, served: Served) -> None:
    served.put("POST /api/pipelines/orders/signals/paid?runToken=o-17", (202, {**SENT, "isRepeated": True}))
    result = call("signal", "--pipeline", "orders", "--run-token", "o-17", "paid")
    assert result.output == "paid was sent before with this key\n"


@pytest.mark.parametrize(
    "words",
    [
        ("paid",),
        (RUN_ID, "paid", "more"),
        (RUN_ID, "paid", "--run-token", "o-17"),
        (RUN_ID, "paid", "--pipeline", "orders", "--run-token", "o-17"),
        ("paid", "--pipeline", "orders"),
    ],
)
def test_a_signal_names_its_run_in_one_way(call: Call, words: tuple[str, ...]) -> None:
    result = call("signal", *words)
    assert (result.exit_code, "give RUN and NAME" in result.stderr) == (2, True)


def test_a_wait_is_resolved_by_hand_with_an_output_or_an_error(call: Call, served: Served) -> None:
    served.put(f"POST /api/waits/{WAIT}/resolve", (200, STATE))
    assert call("wait", "resolve", WAIT, "-i", "5", "--reason", "lost").output == f"{WAIT} is completed\n"
    assert served.asked[0][2] == {"output": 5, "reason": "lost"}
    assert call("wait", "resolve", WAIT, "--error", "LOST").exit_code == 0
    assert served.asked[1][2]["error"] == {"code": "LOST", "message": "resolved by hand"}
    assert call("wait", "resolve", WAIT, "-i", "5", "--error", "LOST").exit_code == 2


def test_an_approval_is_given_with_its_form(call: Call, served: Served) -> None:
    served.put(f"POST /api/waits/{WAIT}/approve", (200, {**STATE, "status": "waiting"}))
    result = call("approve", WAIT, "-i", '{"amount": 900}', "--comment", "ok")
    assert result.output == f"{WAIT} still waits for others to agree\n"
    assert served.asked[0][2] == {"form": {"amount": 900}, "comment": "ok"}


def test_what_waits_is_listed(call: Call, served: Served) -> None:
    row = {
        "taskRunId": WAIT,
        "kind": "signal",
        "names": ["paid", "cancelled"],
        "title": None,
        "pipelineId": "orders",
        "stepId": "pay",
        "since": "2026-11-20T12:00:00.000Z",
        "wakesAt": None,
        "timeoutAt": "2026-11-27T12:00:00.000Z",
    }
    served.put("GET /api/waits?limit=20", (200, {"waits": [row], "nextCursor": None}))
    shown = call("waiting").output
    assert all(each in shown for each in (WAIT, "paid, cancelled", "2026-11-27 12:00:00"))


def test_why_asks_the_step_that_waits_and_not_the_steps_behind_it(call: Call, served: Served) -> None:
    def row(id: str, kind: str, status: str) -> dict[str, Any]:
        return {"id": id, "kind": kind, "status": status, "stepId": kind, "mapIndex": None, "attempt": 1}

    rows = [row(WAIT, "wait", "waiting"), row(show(TASK_RUN, new_id()), "task", "pending")]
    run = {"id": RUN_ID, "status": "running", "pipelineId": "orders", "taskRuns": rows}
    served.put(f"GET /api/runs/{RUN_ID}", (200, run))
    reasons = [{"code": "waits_for_signal", "text": "it waits for the signal 'paid'"}]
    answer = {"taskRunId": WAIT, "runId": RUN_ID, "status": "waiting", "reasons": reasons}
    served.put(f"GET /api/task-runs/{WAIT}/why", (200, answer))
    assert call("why", RUN_ID).output == f"{WAIT} is waiting\n  it waits for the signal 'paid'\n"
