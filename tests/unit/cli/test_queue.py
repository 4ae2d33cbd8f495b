"""`pipeweave queue | pause | resume | limits | why`: what they ask, what they print, how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.errors import Conflict
from pipeweave.ids import TASK_RUN, new_id, show

Call = Callable[..., Result]

SINCE = "2026-11-20T12:00:00.000Z"
LIMITS = {"maxActiveRuns": 10, "activeRuns": 10, "pendingRuns": 3}
STATUS: dict[str, Any] = {
    "pending": 4,
    "running": 2,
    "waiting": 0,
    "completed": 7,
    "failed": 0,
    "dlq": 0,
    "oldestPending": SINCE,
    "pausedAt": None,
    "pauseReason": None,
    "pausedTasks": ["send-mail"],
    "since": SINCE,
}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def pause(task: str | None, reason: str | None = None) -> tuple[int, Any]:
    return 200, {"taskId": task, "pausedAt": SINCE, "reason": reason}


QUEUE = {
    "queue": "pipeweave.default.python/gpu",
    "kind": "tasks",
    "serviceId": "python",
    "name": "gpu",
    "queued": 10_000,
    "isCapped": True,
    "running": 2,
    "oldest": SINCE,
    "workers": 1,
    "places": 2,
    "outPerMinute": 12.5,
}


def test_a_task_is_paused_with_a_reason(call: Call, served: Served) -> None:
    served.put("POST /api/tasks/send-mail/pause", pause("send-mail", "full"))
    result = call("pause", "send-mail", "--reason", "full")
    assert (result.exit_code, result.output) == (
        0,
        "task send-mail is paused since 2026-11-20 12:00:00 UTC\n",
    )
    assert served.asked[0][2] == {"reason": "full"}


def test_without_a_task_the_tenant_is_paused_and_resumed(call: Call, served: Served) -> None:
    served.put("POST /api/queue/pause", pause(None))
    served.put("POST /api/queue/resume", (200, {"taskId": None, "pausedAt": None, "reason": None}))
    assert call("pause").output.startswith("the tenant is paused since")
    assert call("resume").output == "the tenant is resumed\n"
    assert json.loads(call("resume", "--json").output)["pausedAt"] is None


def test_a_task_that_is_not_paused_cannot_be_resumed(call: Call, served: Served) -> None:
    problem = Conflict("task 'count' is not paused", hint="look").to_problem()
    served.put("POST /api/tasks/count/resume", (409, problem))
    result = call("resume", "count")
    assert (result.exit_code, result.stderr) == (1, "pipeweave: CONFLICT: task 'count' is not paused; look\n")


@pytest.mark.parametrize(
    ("options", "sent"), [(["--max-active-runs", "10"], 10), (["--no-max-active-runs"], None)]
)
def test_the_limit_of_active_runs_is_set(call: Call, served: Served, options: list[str], sent: int) -> None:
    served.put("PUT /api/queue/limits", (200, LIMITS))
    result = call("limits", *options)
    assert result.exit_code == 0
    assert served.asked[0][2] == {"maxActiveRuns": sent}
    assert result.output.splitlines()[0].split("  ") == ["max active runs", "10"]


def test_without_an_option_the_limit_is_shown(call: Call, served: Served) -> None:
    served.put("GET /api/queue/limits", (200, {**LIMITS, "maxActiveRuns": None}))
    assert "unlimited" in call("limits").output
    assert json.loads(call("limits", "--json").output)["pendingRuns"] == 3


def test_two_limits_at_once_are_wrong_usage(call: Call) -> None:
    assert call("limits", "--max-active-runs", "3", "--no-max-active-runs").exit_code == 2
    assert call("limits", "--max-active-runs", "0").exit_code == 2


def test_the_queue_shows_what_is_paused(call: Call, served: Served) -> None:
    served.put("GET /api/queue/limits", (200, LIMITS))
    served.put("GET /api/queues?limit=500", (200, {"queues": [QUEUE], "nextCursor": None}))
    paused = {"pausedAt": SINCE, "pauseReason": "moving house"}
    served.put("GET /api/queue/status", (200, STATUS), (200, {**STATUS, **paused}))
    first, second = call("queue").output, call("queue").output
    assert "send-mail" in first
    assert "python/gpu" in first
    assert "10,000+" in first
    assert "paused since" not in first
    assert "2026-11-20 12:00:00 moving house" in second
    assert json.loads(call("queue", "--json").output)["activeRuns"] == 10


def test_why_says_each_reason_in_a_line(call: Call, served: Served) -> None:
    id_ = show(TASK_RUN, new_id())
    reasons = [
        {"code": "tenant_paused", "text": "the tenant is paused", "since": SINCE, "reason": None},
        {"code": "concurrency_limit", "text": "2 of the 2 are live", "live": 2},
    ]
    answer = {"taskRunId": id_, "runId": None, "status": "ready", "reasons": reasons}
    served.put(f"GET /api/task-runs/{id_}/why", (200, answer))
    assert call("why", id_).output == f"{id_} is ready\n  the tenant is paused\n  2 of the 2 are live\n"
    assert json.loads(call("why", id_, "--json").output) == answer


def test_the_limits_of_a_task_are_set_as_a_whole_and_taken_away(call: Call, served: Served) -> None:
    task = {"id": "resize", "concurrency": 8, "rateLimit": None, "declaredConcurrency": 2}
    task |= {"declaredRateLimit": "5/s", "limitsSetAt": SINCE, "limitsSetBy": "alice", "limitsReason": "disk"}
    served.put("PUT /api/tasks/resize/limits", (200, {"task": task}))
    served.put("GET /api/tasks/resize", (200, {"task": task}))
    shown = call("tasks", "limits", "resize", "--concurrency", "8", "--rate", "none", "--reason", "disk")
    assert shown.exit_code == 0
    assert served.asked[-1][2] == {"concurrency": 8, "rateLimit": "none", "reason": "disk"}
    assert "2, 5/s" in shown.output
    assert "by alice disk" in shown.output
    assert call("tasks", "limits", "resize", "--declared").exit_code == 0
    assert served.asked[-1][2] == {}
    call("tasks", "limits", "resize")
    assert served.asked[-1][0] == "GET /api/tasks/resize"
    assert call("tasks", "limits", "resize", "--declared", "--concurrency", "1").exit_code == 2
