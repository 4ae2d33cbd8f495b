"""`pipeweave dlq` and `client.dlq`: what they ask, what they print, how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import dlq as commands
from pipeweave.cli import main
from pipeweave.client import Client, dead_letters
from pipeweave.errors import Conflict, WaitTimeout
from pipeweave.ids import DEAD_LETTER, REDRIVE, RUN, TASK_RUN, new_id, show

Call = Callable[..., Result]

LETTER, RUN_ID, TASK_RUN_ID, REDRIVE_ID = (
    show(each, new_id()) for each in (DEAD_LETTER, RUN, TASK_RUN, REDRIVE)
)


def letter(**more: Any) -> dict[str, Any]:
    return {
        "id": LETTER,
        "dlqId": LETTER,
        "taskRunId": TASK_RUN_ID,
        "taskId": "send-mail",
        "pipelineRunId": RUN_ID,
        "pipelineId": "mails",
        "stepId": "send",
        "kind": "item",
        "mapIndex": 3,
        "status": "open",
        "codeVersion": 1,
        "attempts": 4,
        "errorCode": "SMTP_DOWN",
        "failedAt": "2026-11-20T12:00:00.000Z",
        **more,
    }


def redrive(status: str, retried: int = 0, skipped: int = 0) -> tuple[int, Any]:
    return 200, {"id": REDRIVE_ID, "status": status, "total": 5, "retried": retried, "skipped": skipped}


def retried(new: str = RUN_ID) -> tuple[int, Any]:
    return 200, {"newRunId": new, "taskRunId": TASK_RUN_ID, "status": "queued", "codeVersion": 2}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    monkeypatch.setattr(dead_letters, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(commands, "POLL_INTERVAL_S", 0.01)
    return lambda *arguments: CliRunner().invoke(main, ["dlq", *arguments])


def test_a_list_names_the_step_and_the_item(served: Served, call: Call) -> None:
    served.put("GET /api/dlq?status=open&limit=20", (200, {"items": [letter()], "nextCursor": "more"}))
    result = call("list")
    assert "send[3]" in result.stdout
    assert "2026-11-20 12:00:00" in result.stdout
    assert "--cursor more" in result.stderr
    served.put("GET /api/dlq?status=open&limit=20", (200, {"items": [], "nextCursor": None}))
    assert call("list").stdout == "No open dead letters.\n"
    assert json.loads(call("list", "--json").stdout) == {"items": [], "nextCursor": None}


def test_filters_become_parameters(served: Served, call: Call) -> None:
    since = "2026-11-20T12%3A00%3A00%2B00%3A00"
    query = f"status=all&limit=7&pipelineId=mails&taskId=send&errorCode=BUSY&since={since}"
    served.put(f"GET /api/dlq?{query}", (200, {"items": [], "nextCursor": None}))
    arguments = [
        "--pipeline",
        "mails",
        "--task",
        "send",
        "--error-code",
        "BUSY",
        "--since",
        "2026-11-20T12:00Z",
    ]
    served.put("GET /api/pipelines/mails", (200, {"pipeline": {"id": "mails"}}))
    served.put("GET /api/tasks", (200, {"tasks": [{"id": "send"}], "nextCursor": None}))
    assert call("list", *arguments, "--status", "all", "-l", "7").stdout == "No dead letters found.\n"


def test_a_filter_with_an_unknown_name_is_an_error(served: Served, call: Call) -> None:
    served.put("GET /api/dlq?status=open&limit=20&taskId=snd", (200, {"items": [], "nextCursor": None}))
    served.put("GET /api/tasks", (200, {"tasks": [{"id": "send"}], "nextCursor": None}))
    result = call("list", "--task", "snd")
    assert result.exit_code == 1
    assert "task 'snd' not found; did you mean 'send'?" in result.stderr


def test_groups_are_counted(served: Served, call: Call) -> None:
    group = {
        "count": 12,
        "taskId": "send",
        "errorCode": "BUSY",
        "message": "try\nlater",
        "fingerprint": "f" * 64,
        "lastFailedAt": "2026-11-20T12:00:00Z",
    }
    served.put("GET /api/dlq/groups?status=open&limit=20", (200, {"groups": [group]}))
    line = call("groups").stdout.splitlines()[1]
    assert ("12" in line, "try later" in line, line.endswith(f" {'f' * 12}")) == (True, True, True)


def test_the_beginning_of_a_fingerprint_names_its_group(served: Served, call: Call) -> None:
    groups = [{"fingerprint": each * 16} for each in ("abcd", "abce", "ffff")]
    served.put("GET /api/dlq/groups?status=all&limit=1000", (200, {"groups": groups}))
    whole = "ffff" * 16
    served.put(
        f"GET /api/dlq?status=open&limit=20&fingerprint={whole}", (200, {"items": [], "nextCursor": None})
    )
    assert call("list", "--fingerprint", "ffff").stdout == "No open dead letters.\n"
    several = call("list", "--fingerprint", "abc")
    assert (several.exit_code, "2 groups have a fingerprint that begins with 'abc'" in several.stderr) == (
        2,
        True,
    )
    assert "no group has a fingerprint" in call("list", "--fingerprint", "0").stderr


TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 47, in send
    return mails.send(to)
  File "/srv/venv/lib/python3.13/site-packages/mails/send.py", line 3, in send
    raise Busy("\x1b[31m")
  File "/usr/lib/python3.13/smtplib.py", line 9, in quit
mails.Busy: try later \x1b[31m
"""


def shown_letter(served: Served, *attempts: dict[str, Any]) -> None:
    error = {"message": "try later", "traceback": TRACEBACK, "details": {"server": "mx1"}}
    shown = letter(
        runStatus="failed",
        fingerprint="ab" * 32,
        input={"to": "someone"},
        item=3,
        error=error,
        previousAttempts=[{"error": error, **each} for each in attempts],
        codeChanged=True,
        retryTaskRunId=None,
        discardReason=None,
    )
    served.put(f"GET /api/dlq/{LETTER}?load=true", (200, shown))


def attempt(number: int, **more: Any) -> dict[str, Any]:
    times = {"startedAt": "2026-11-20T12:00:00Z", "finishedAt": "2026-11-20T12:00:01Z"}
    return {"attempt": number, "status": "failed", "errorCode": "BUSY", **times, **more}


def test_a_dead_letter_shows_its_error_details_and_input_first(served: Served, call: Call) -> None:
    shown_letter(served, attempt(1))
    shown = call("show", LETTER).stdout
    assert "error         SMTP_DOWN: try later\n" in shown
    assert 'details       {"server":"mx1"}\n' in shown
    assert 'input         {"to":"someone"}\n' in shown
    assert "v1 (the code has changed since)" in shown


def test_equal_tracebacks_are_shown_once_and_without_frames_of_libraries(served: Served, call: Call) -> None:
    shown_letter(served, attempt(1), attempt(2), attempt(3, errorCode="LATE", error={"message": "too late"}))
    shown = call("show", LETTER).stdout
    assert shown.endswith(
        """
attempts 1 to 2: failed, BUSY, the same each time (1.0 s, 1.0 s)
  Traceback (most recent call last):
    File "/srv/shop/tasks.py", line 47, in send
      return mails.send(to)
    2 frames of libraries left out; --full shows all
  mails.Busy: try later ?[31m

attempt 3: failed, LATE (1.0 s)
  too late
"""
    )
    assert "\x1b" not in shown


def test_all_frames_are_shown_on_request_or_where_no_frame_is_the_users(served: Served, call: Call) -> None:
    shown_letter(served, attempt(1))
    assert "smtplib.py" in call("show", LETTER, "--full").stdout
    theirs = TRACEBACK.replace("/srv/shop/", "/venv/site-packages/")
    shown_letter(served, attempt(1, error={"traceback": theirs}))
    assert "smtplib.py" in call("show", LETTER).stdout


def test_a_retry_says_what_goes_on(served: Served, call: Call) -> None:
    served.put(f"POST /api/dlq/{LETTER}/retry", retried())
    assert call("retry", LETTER).stdout == f"{RUN_ID} queued (code v2)\n"
    assert json.loads(call("retry", LETTER, "--json").stdout) == retried()[1]


def test_a_refused_retry_is_one_line_and_exit_1(served: Served, call: Call) -> None:
    problem = Conflict(
        f"dead letter {LETTER} has already been retried", hint="look at its retry"
    ).to_problem()
    served.put(f"POST /api/dlq/{LETTER}/retry", (409, problem))
    result = call("retry", LETTER)
    expected = f"pipeweave: CONFLICT: dead letter {LETTER} has already been retried; look at its retry\n"
    assert (result.exit_code, result.stderr) == (1, expected)


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1)])
def test_a_retry_that_is_waited_for_ends_as_its_run(
    served: Served, call: Call, status: str, code: int
) -> None:
    served.put(f"POST /api/dlq/{LETTER}/retry", retried())
    run = {"id": RUN_ID, "pipelineId": "mails", "pipelineVersion": 1, "steps": []}
    served.put(
        f"GET /api/runs/{RUN_ID}", (200, {**run, "status": "running"}), (200, {**run, "status": status})
    )
    result = call("retry", LETTER, "--wait", "--json")
    assert (result.exit_code, json.loads(result.stdout)["endedAs"]) == (code, status)


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("timeout", 1)])
def test_a_standalone_task_is_waited_for_as_well(served: Served, call: Call, status: str, code: int) -> None:
    served.put(f"POST /api/dlq/{LETTER}/retry", retried(TASK_RUN_ID))
    served.put(f"GET /api/task-runs/{TASK_RUN_ID}", (200, {"status": "queued"}), (200, {"status": status}))
    assert call("retry", LETTER, "-w").exit_code == code


def test_retrying_many_can_be_waited_for(served: Served, call: Call) -> None:
    served.put("POST /api/dlq/retry-all", (202, redrive("running")[1]))
    served.put(f"GET /api/dlq/redrives/{REDRIVE_ID}", redrive("running", 2), redrive("completed", 4, 1))
    result = call("retry-all", "--task", "send", "--wait")
    assert served.asked[0][2] == {"taskId": "send"}
    assert result.stdout.splitlines() == [
        f"{REDRIVE_ID} running: 2 of 5",
        f"{REDRIVE_ID} completed: 5 of 5, 1 skipped",
    ]
    assert result.exit_code == 1, "one was skipped"
    assert call("retry-all").exit_code == 0


def test_a_redrive_is_shown_and_cancelled(served: Served, call: Call) -> None:
    served.put(f"GET /api/dlq/redrives/{REDRIVE_ID}", redrive("running", 3))
    served.put(f"POST /api/dlq/redrives/{REDRIVE_ID}/cancel", redrive("cancelled", 3))
    assert call("redrive", REDRIVE_ID).stdout == f"{REDRIVE_ID} running: 3 of 5\n"
    assert call("redrive", REDRIVE_ID, "--cancel").stdout == f"{REDRIVE_ID} cancelled: 3 of 5\n"


def test_waiting_for_a_redrive_ends_in_time(served: Served, call: Call) -> None:
    served.put("POST /api/dlq/retry-all", (202, redrive("running")[1]))
    served.put(f"GET /api/dlq/redrives/{REDRIVE_ID}", redrive("running"))
    result = call("retry-all", "--wait", "--timeout", "0.05")
    assert (result.exit_code, WaitTimeout.code in result.stderr) == (1, True)


def test_discarding_takes_names_or_filters(served: Served, call: Call) -> None:
    served.put(f"POST /api/dlq/{LETTER}/discard", (200, letter(status="discarded")))
    served.put("POST /api/dlq/discard", (200, {"discarded": 1200}))
    assert call("discard", LETTER, "--reason", "known").stdout == "1 discarded\n"
    assert served.asked[-1][2] == {"reason": "known"}
    assert call("discard", "--error-code", "BUSY").stdout == "1,200 discarded\n"
    assert served.asked[-1][2] == {"errorCode": "BUSY"}
    assert call("discard").exit_code == 2
    assert call("discard", LETTER, "--task", "send").exit_code == 2


def test_purging_needs_an_age(served: Served, call: Call) -> None:
    answers = [(200, {"purged": number, "more": more}) for number, more in ((100_000, True), (3, False))]
    served.put("POST /api/dlq/purge", *answers)
    assert call("purge", "--older-than", "30d").stdout == "100,003 deleted\n"
    assert served.asked[-1][2] == {"olderThan": "30d"}
    assert call("purge").exit_code == 2


def test_the_client_goes_through_all_pages(served: Served) -> None:
    served.put("GET /api/dlq?limit=500&taskId=send", (200, {"items": [letter(id="a")], "nextCursor": "n"}))
    more = (200, {"items": [letter(id="b")], "nextCursor": None})
    served.put("GET /api/dlq?limit=500&cursor=n&taskId=send", more)
    with Client(served.url, timeout=5) as client:
        assert [each["id"] for each in client.dlq.all(task_id="send")] == ["a", "b"]
        served.put("GET /api/dlq?since=2026-11-20T00%3A00%3A00%2B00%3A00", more)
        page = client.dlq.page(since=datetime(2026, 11, 20, tzinfo=UTC))
        assert [each["id"] for each in page.items] == ["b"]


def test_the_dead_letters_of_one_run_are_listed_and_retried(served: Served, call: Call) -> None:
    served.put(
        f"GET /api/dlq?status=open&limit=20&pipelineRunId={RUN_ID}",
        (200, {"items": [letter()], "nextCursor": None}),
    )
    assert "send[3]" in call("list", "--run", RUN_ID).stdout
    served.put("POST /api/dlq/retry-all", (202, redrive("running")[1]))
    assert call("retry-all", "--run", RUN_ID).exit_code == 0
    assert served.asked[-1][2] == {"pipelineRunId": RUN_ID}


def test_the_latest_run_is_that_of_the_named_pipeline(served: Served, call: Call) -> None:
    """The run of a hook may have begun since."""
    served.put(
        "GET /api/runs?pipelineId=mails&limit=1", (200, {"runs": [{"id": RUN_ID}], "nextCursor": None})
    )
    served.put("POST /api/dlq/retry-all", (202, redrive("running")[1]))
    done = call("retry-all", "--run", "latest", "--pipeline", "mails")
    assert (done.exit_code, served.asked[-1][2]["pipelineRunId"]) == (0, RUN_ID), done.output
