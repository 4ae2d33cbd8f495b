"""`trigger --wait`, `status` and `output`: what they say of a run, its steps, its errors and its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.cli.support import progress
from pipeweave.cli.support.progress import shown_steps
from pipeweave.cli.support.steps import StepProgress
from pipeweave.ids import RUN, TASK_RUN, new_id, run_id_of, show, task_run_id

Call = Callable[..., Result]
RUN_UUID = run_id_of(new_id())
RUN_ID = show(RUN, RUN_UUID)
TASK_RUN_ID = show(TASK_RUN, task_run_id(RUN_UUID, 1))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def step(id: str, status: str, **more: Any) -> dict[str, Any]:
    counts = {"completed": int(status == "completed"), "failed": int(status == "failed")}
    return {
        "id": id,
        "taskRunId": TASK_RUN_ID,
        "kind": "task",
        "status": status,
        "attempt": 1,
        "maxAttempts": 4,
        "done": 1,
        "total": 1,
        "cancelled": 0,
        "skipped": 0,
        **counts,
        **more,
    }


def of_map(status: str, completed: int, total: int, **more: Any) -> dict[str, Any]:
    ended = completed + sum(more.get(each, 0) for each in ("failed", "cancelled", "skipped"))
    return step("count", status, kind="map", completed=completed, total=total, done=ended, **more)


def task_run(status: str, **more: Any) -> dict[str, Any]:
    return {"id": TASK_RUN_ID, "stepId": "charge", "kind": "task", "mapIndex": None, "status": status, **more}


def run_document(status: str, **more: Any) -> dict[str, Any]:
    return {"id": RUN_ID, "pipelineId": "report", "pipelineVersion": 2, "status": status, "steps": [], **more}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": RUN_ID, "status": "running"}))
    return lambda *arguments: CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("status", "code"), [("completed", 0), ("partial", 1), ("failed", 1), ("cancelled", 1)]
)
def test_waiting_succeeds_only_with_a_completed_run(
    served: Served, call: Call, status: str, code: int
) -> None:
    served.put(
        f"GET /api/runs/{RUN_ID}",
        (200, run_document("running", steps=[step("list", "completed"), of_map("waiting", 3, 8)])),
        (200, run_document("running", steps=[step("list", "completed"), of_map("waiting", 4, 8)])),
        (200, run_document(status, steps=[step("list", "completed"), of_map(status, 8, 8)])),
    )
    result = call("trigger", "report", "--wait")
    assert result.exit_code == code
    assert result.stdout.splitlines()[:3] == [
        "list  completed  -",
        "count  running  3/8",
        "count  running  4/8",
    ]
    assert result.stdout.splitlines()[-1].startswith(f"{RUN_ID} {status}")
    assert "\x1b" not in result.stdout


def test_a_retried_step_says_which_attempt_and_how_long_all_of_them_took(served: Served, call: Call) -> None:
    due = (datetime.now(UTC) + timedelta(seconds=30.5)).isoformat()
    times = {"startedAt": "2026-11-20T12:00:00Z", "finishedAt": "2026-11-20T12:00:04Z"}
    served.put(
        f"GET /api/runs/{RUN_ID}",
        (200, run_document("running", steps=[step("charge", "pending", attempt=2, dueAt=due)])),
        (200, run_document("running", steps=[step("charge", "running", progress=30.0, attempt=2)])),
        (200, run_document("completed", steps=[step("charge", "completed", attempt=2, **times)])),
    )
    lines = call("trigger", "report", "--wait").stdout.splitlines()
    assert lines[0].startswith("charge  retry 2/4 in ")
    assert lines[1:3] == ["charge  running  30 %", "charge  completed  attempt 2/4  4.0 s"]


def test_steps_say_what_became_of_their_items(served: Served, call: Call) -> None:
    steps = [
        of_map("failed", 7, 10, failed=1, cancelled=2, errorCode="ITEMS_FAILED"),
        step("join", "skipped", skipped=1),
        step("send", "running", progress=30.0, progressMessage="asking the bank", startedAt=NOW.isoformat()),
    ]
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("completed", steps=steps)))
    lines = call("status", RUN_ID).stdout.splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["STEP", "STATUS", "DONE", "ATTEMPT", "TOOK", "DETAIL"]
    assert "7/10, 1 failed, 2 cancelled" in table[1]
    assert table[2].split() == ["join", "skipped", "0/1", "-", "-", "-"]
    assert "1/4" in table[3]
    assert table[3].endswith("30 %: asking the bank")


def test_a_failed_run_shows_its_first_errors(served: Served, call: Call) -> None:
    failed = [
        task_run(
            "failed", stepId="count", kind="item", mapIndex=n, errorCode="X", error={"message": f"no {n}"}
        )
        for n in range(7)
    ]
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("failed", taskRuns=failed)))
    result = call("status", RUN_ID)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        *(f"  count[{n}] failed: X: no {n}" for n in range(5)),
        "  and 2 more",
    ]


def test_failures_beyond_the_listed_task_runs_are_counted(served: Served, call: Call) -> None:
    steps = [of_map("failed", 4_000, 5_000, failed=1_000)]
    large = run_document("failed", steps=steps, taskRuns=[], taskRunsCursor="more")
    served.put(f"GET /api/runs/{RUN_ID}", (200, large))
    assert call("status", RUN_ID).stderr == "  1,000 task runs failed; `pipeweave dlq list` shows them\n"
    message = "1,000 of 5,001 task runs failed, all at step count: X: no"
    ended = large | {"errorCode": "STEP_FAILED", "error": {"code": "STEP_FAILED", "message": message}}
    served.put(f"GET /api/runs/{RUN_ID}", (200, ended))
    assert call("status", RUN_ID).stderr == f"  {message}; `pipeweave dlq list` shows them\n"


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ("failed", "RUN_TIMEOUT", "the run took longer than 600 s"),
        ("cancelled", "CANCELLED", "the wrong day"),
    ],
    ids=["time limit", "cancellation"],
)
def test_what_ended_a_run_is_said_wherever_the_run_is_shown(
    served: Served, call: Call, status: str, code: str, message: str
) -> None:
    ended = run_document(status, errorCode=code, error={"code": code, "message": message})
    served.put(f"GET /api/runs/{RUN_ID}", (200, ended))
    served.put("GET /api/runs?limit=20", (200, {"runs": [ended], "nextCursor": None}))
    assert f"error          {code}: {message}" in call("status", RUN_ID).stdout
    assert call("trigger", "report", "--wait").stdout.endswith(f"in -: {code}: {message}\n")
    assert code in call("runs").stdout


def test_who_cancelled_a_run_is_named(served: Served, call: Call) -> None:
    error = {"code": "CANCELLED", "message": "the wrong day", "by": "ci"}
    served.put(
        f"GET /api/runs/{RUN_ID}", (200, run_document("cancelled", errorCode="CANCELLED", error=error))
    )
    assert "CANCELLED: the wrong day (by the token 'ci')\n" in call("status", RUN_ID).stdout


def test_a_cancelled_step_shows_its_own_code_unless_the_end_of_the_run_cancelled_it(
    served: Served, call: Call
) -> None:
    cancelled = [
        task_run(
            "cancelled", stepId="old", errorCode="TASK_REMOVED", error={"message": "task old was removed"}
        ),
        task_run("cancelled", stepId="rest", errorCode="RUN_FAILED", error={"message": "the run failed"}),
    ]
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("failed", taskRuns=cancelled)))
    assert call("status", RUN_ID).stderr == "  old cancelled: TASK_REMOVED: task old was removed\n"


def test_waiting_in_json_prints_only_the_final_run(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("running")), (200, run_document("completed")))
    result = call("trigger", "report", "--wait", "--json")
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (0, "completed")


def test_waiting_no_longer_than_asked(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("running")))
    result = call("trigger", "report", "--wait", "--timeout", "0.1")
    assert result.exit_code == 1
    assert "WAIT_TIMEOUT" in result.stderr


def why(status: str, *reasons: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 200, {"taskRunId": TASK_RUN_ID, "runId": RUN_ID, "status": status, "reasons": list(reasons)}


def test_a_wait_in_which_nothing_happens_says_why_once_for_each_reason(
    served: Served, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    waits = run_document("running", taskRuns=[task_run("queued")])
    served.put(f"GET /api/runs/{RUN_ID}", *[(200, waits)] * 8, (200, run_document("completed")))
    nobody = {"code": "no_worker", "text": "no running worker serves gpu"}
    ahead = {"code": "queued", "text": "it is queued, 3 before it"}
    fewer = {"code": "queued", "text": "it is queued, 2 before it"}
    path = f"GET /api/task-runs/{TASK_RUN_ID}/why"
    served.put(path, why("queued", nobody), why("queued", nobody), why("queued", ahead), why("queued", fewer))
    lines = call("trigger", "report", "--wait").stdout.splitlines()
    assert lines[:-1] == [
        "charge waits: no running worker serves gpu",
        "charge waits: it is queued, 3 before it",
    ]


def test_the_status_of_a_run_that_waits_says_why(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("running", taskRuns=[task_run("ready")])))
    paused = {"code": "task_paused", "text": "a reason"}
    served.put(f"GET /api/task-runs/{TASK_RUN_ID}/why", why("ready", paused))
    assert "waits          charge waits: a reason" in call("status", RUN_ID).stdout


def test_a_small_output_is_printed_with_its_run_and_a_large_one_is_not(served: Served, call: Call) -> None:
    path = f"GET /api/runs/{RUN_ID}"
    served.put(path, (200, run_document("completed", output={"words": 3}, outputRefs={})))
    assert call("status", RUN_ID).stdout.endswith('output: {"words":3}\n')
    served.put(path, (200, run_document("completed", output="x" * 3_000, outputRefs={})))
    assert call("status", RUN_ID).stdout.endswith(f"output: large; `pipeweave output {RUN_ID}` prints it\n")


def test_output_prints_nothing_but_json(served: Served, call: Call) -> None:
    done = run_document("completed", output=[1, {"a": None}], steps=[step("charge", "completed")])
    served.put(f"GET /api/runs/{RUN_ID}?load=true", (200, done))
    served.put(f"GET /api/runs/{RUN_ID}", (200, done))
    served.put(
        f"GET /api/task-runs/{TASK_RUN_ID}?load=true", (200, task_run("completed", output=7, errorCode=None))
    )
    assert json.loads(call("output", RUN_ID).stdout) == [1, {"a": None}]
    assert json.loads(call("output", RUN_ID, "charge").stdout) == 7
    wrong = call("output", RUN_ID, "chrage")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "did you mean 'charge'?" in wrong.stderr


def test_a_run_without_output_says_so(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs/{RUN_ID}?load=true", (200, run_document("running", output=None)))
    result = call("output", RUN_ID)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "has no output: it is running" in result.stderr


@pytest.mark.parametrize(
    ("left_s", "shown"),
    [(3.2, "retry 2/4 in 3.2 s"), (200, "retry 2/4 in 3 min 20 s"), (-1, "retry 2/4 now")],
)
def test_the_countdown_of_a_retry(left_s: float, shown: str) -> None:
    due = (NOW + timedelta(seconds=left_s)).isoformat()
    waiting = StepProgress("a", "pending", attempt=2, max_attempts=4, due_at=due)
    assert waiting.detail(NOW) == shown


def test_a_step_that_runs_a_pipeline_shows_its_round_and_its_run() -> None:
    assert StepProgress("a", "waiting", child="prun_1").detail() == "prun_1"
    ended = StepProgress("a", "failed", child="prun_2", round=3, error_code="CHILD_FAILED")
    assert ended.detail() == "round 3, prun_2  CHILD_FAILED"


def steps(*shown: tuple[str, str]) -> list[StepProgress]:
    return [StepProgress(id, status, failed=int(status == "failed"), started_at="t") for id, status in shown]


def test_a_small_run_is_shown_whole() -> None:
    few = steps(("a", "completed"), ("b", "running"))
    assert shown_steps(few) == few


def test_of_a_large_run_only_open_and_failed_steps_are_shown() -> None:
    many = steps(*((f"s{n}", "completed") for n in range(5000)), ("x", "running"), ("y", "failed"))
    assert [each.id for each in shown_steps(many)] == ["x", "y"]


def test_a_run_is_shown_with_what_its_hooks_did(served: Served, call: Call) -> None:
    hook = {
        "hook": "onFailure",
        "pipelineId": None,
        "url": None,
        "reason": None,
        "error": None,
        "runId": None,
    }
    hook["runId"] = None
    refused = {"code": "HOOK_REFUSED", "message": "it answered 500: down"}
    hooks = [
        {**hook, "pipelineId": "alert", "outcome": "fired", "attempts": 0, "runId": RUN_ID},
        {**hook, "url": "https://a.example/", "outcome": "waiting", "attempts": 2, "error": refused},
    ]
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("failed", hooks=hooks)))
    lines = call("status", RUN_ID).stdout.splitlines()
    assert f"onFailure alert: fired, {RUN_ID}" in lines
    assert "onFailure https://a.example/: waiting, 2 tries, it answered 500: down" in lines


def test_a_run_in_its_ending_says_what_it_does_and_by_which_run(served: Served, call: Call) -> None:
    ending = {
        "part": "compensate:charge",
        "stepId": "charge",
        "runId": "prun_inner",
        "runStatus": "running",
        "endsAs": "failed",
        "parts": ["compensate:ship", "compensate:charge", "finally"],
        "timeoutAt": "2026-11-20T12:05:00Z",
    }
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("error_handling", ending=ending)))
    assert "takes charge back, part 2 of 3 (prun_inner, running)" in call("status", RUN_ID).stdout
    last = {**ending, "part": "finally", "stepId": None, "runStatus": None, "parts": ["finally"]}
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("error_handling", ending=last)))
    assert "runs its finally (prun_inner, which starts next)" in call("status", RUN_ID).stdout


def test_a_run_that_is_over_says_what_followed_its_last_step(served: Served, call: Call) -> None:
    parts = [
        {"part": "compensate:charge", "stepId": "charge", "runId": "prun_a", "runStatus": "completed"},
        {"part": "finally", "stepId": None, "runId": None, "runStatus": None},
    ]
    document = run_document("failed", ending=None, endingParts=parts)
    served.put(f"GET /api/runs/{RUN_ID}", (200, document))
    assert "charge taken back (prun_a, completed); finally: not run" in call("status", RUN_ID).stdout


def test_a_step_whose_error_is_taken_care_of_says_by_which_run(served: Served, call: Call) -> None:
    handled = step("charge", "waiting", errorCode="CARD_REFUSED", childRunId="prun_inner")
    served.put(f"GET /api/runs/{RUN_ID}", (200, run_document("running", steps=[handled])))
    assert "CARD_REFUSED; prun_inner takes care of it" in call("status", RUN_ID).stdout


def test_a_run_says_what_did_not_succeed_behind_a_failure(served: Served, call: Call) -> None:
    handler = {"code": "NO_CARD", "message": "no other card"}
    charge = task_run("failed", errorCode="REFUSED", error={"message": "refused", "handlerError": handler})
    error = {
        "code": "STEP_FAILED",
        "message": "step charge failed",
        "compensationErrors": [{"step": "hotel", "code": "AWAY", "message": "nobody answers"}],
        "finallyError": {"code": "FULL", "message": "the disk is full"},
    }
    document = run_document("failed", errorCode="STEP_FAILED", error=error, taskRuns=[charge])
    served.put(f"GET /api/runs/{RUN_ID}", (200, document))
    assert [each.strip() for each in call("status", RUN_ID).stderr.splitlines()] == [
        "charge failed: REFUSED: refused",
        "what was to take care of charge: NO_CARD: no other card",
        "hotel was not taken back: AWAY: nobody answers",
        "finally: FULL: the disk is full",
    ]


def test_a_run_to_be_worked_on_here_needs_a_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "BROKER_URL", "PIPEWEAVE_ORCHESTRATOR_URL", "PIPEWEAVE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    answer = CliRunner().invoke(main, ["run", "nightly"])
    assert answer.exit_code == 1
    assert answer.stderr.count("\n") == 1 and "`pipeweave up`" in answer.stderr


def test_a_run_to_be_worked_on_here_needs_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/d")
    monkeypatch.setenv("BROKER_URL", "redis://h")
    answer = CliRunner().invoke(main, ["run", "nightly"])
    assert answer.exit_code == 1
    assert "there are no tasks to load" in answer.stderr and "--app" in answer.stderr
