"""`pipeweave deploys | tasks`: what they ask, what they print, how they end."""

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

Call = Callable[..., Result]

SINCE = "2026-11-20T12:00:00.000Z"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def deploy(version: int, *, is_newest: bool, workers: int = 1) -> dict[str, Any]:
    return {
        "taskId": "charge_card",
        "serviceId": "payments",
        "codeVersion": version,
        "codeHash": "0" * 64,
        "isNewest": is_newest,
        "workerCount": workers,
        "stopping": 0,
        "idle": 0,
        "since": SINCE,
        "workers": ["worker-4711@host-of-a-usual-length:4711:deadbeef"],
    }


def a_task(id: str, **more: Any) -> dict[str, Any]:
    given = {"id": id, "serviceId": "python", "codeVersion": 1, "codeHash": "0" * 64, "maxAttempts": 4}
    given |= {"timeout": 300, "concurrency": 0, "rateLimit": None, "pausedAt": None, "priority": 100}
    given |= {"allowedNext": [], "queue": "default", "workerCount": 2, "lastSeen": SINCE, "orphanedAt": None}
    return given | more


def test_deploys_shows_old_and_new_code_within_80_columns(call: Call, served: Served) -> None:
    found = [deploy(2, is_newest=False), deploy(3, is_newest=True, workers=12)]
    served.put("GET /api/deploys", (200, {"deploys": found, "nextCursor": None}))
    result = call("deploys")
    assert result.exit_code == 0
    heading, old, new = result.output.splitlines()
    assert heading.split()[:4] == ["TASK", "SERVICE", "CODE", "WORKERS"]
    assert old.split()[:4] == ["charge_card", "payments", "v2", "(old)"]
    assert new.split()[2:4] == ["v3", "12"]
    assert max(len(line) for line in (heading, old, new)) <= 80
    assert json.loads(call("deploys", "--json").output)["deploys"] == found
    named = call("deploys", "charge_card").output.splitlines()
    assert named[1:] == [
        "v2 (old)  worker-4711@host-of-a-usual-length:4711",
        "v3        worker-4711@host-of-a-usual-length:4711",
    ]
    served.put("GET /api/tasks", (200, {"tasks": [a_task("refund")], "nextCursor": None}))
    assert "No running worker has it" in call("deploys", "refund").output
    assert "task 'refnd' not found; did you mean 'refund'?" in call("deploys", "refnd").stderr


def test_tasks_shows_the_workers_of_each_task(call: Call, served: Served) -> None:
    tasks = [
        a_task("loaded", queue="gpu"),
        a_task("left", workerCount=0),
        a_task("removed", workerCount=0, orphanedAt=SINCE),
    ]
    served.put("GET /api/tasks", (200, {"tasks": tasks, "nextCursor": None}))
    result = call("tasks")
    lines = {line.split()[0]: line for line in result.output.splitlines()}
    assert " 2 " in lines["loaded"] and " gpu " in lines["loaded"]
    assert "none since 2026-11-20 12:00:00" in lines["left"]
    assert " removed " in lines["removed"]


def test_tasks_that_pipeweave_brings_are_shown_when_asked_for(call: Call, served: Served) -> None:
    def names(*options: str) -> list[str]:
        return [line.split()[0] for line in call("tasks", *options).stdout.splitlines()[1:]]

    brought = [a_task("http.request"), a_task("log.write")]
    served.put("GET /api/tasks", (200, {"tasks": [a_task("http.fetch"), *brought], "nextCursor": None}))
    assert names() == ["http.fetch"]
    assert call("tasks").stderr == "2 that PipeWeave brings are not shown: --all\n"
    assert names("--all") == ["http.fetch", "http.request", "log.write"]
    assert len(json.loads(call("tasks", "--json").stdout)["tasks"]) == 3
    served.put("GET /api/tasks", (200, {"tasks": brought, "nextCursor": None}))
    assert names() == ["http.request", "log.write"], "where there are no others"


def test_a_task_is_removed_with_a_reason(call: Call, served: Served) -> None:
    answer = {"taskId": "left", "removedAt": SINCE, "cancelled": 4}
    served.put("POST /api/tasks/left/remove", (200, answer))
    result = call("tasks", "remove", "left", "--reason", "we print no more")
    assert (result.exit_code, result.output) == (0, "Removed task left; cancelled task runs: 4\n")
    assert served.asked[0][2] == {"reason": "we print no more"}
    assert json.loads(call("tasks", "remove", "left", "--json").output) == answer


def test_a_task_that_a_live_worker_has_is_not_removed(call: Call, served: Served) -> None:
    problem = Conflict("a live worker has task 'left'", hint="stop it").to_problem()
    served.put("POST /api/tasks/left/remove", (409, problem))
    result = call("tasks", "remove", "left")
    assert result.exit_code == 1
    assert "a live worker has task 'left'" in result.stderr
