"""`pipeweave workers`: what it asks, what it prints, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main

Call = Callable[..., Result]

SINCE = "2026-11-20T12:00:00.000Z"
ID = "worker-4711@host-a:4711:deadbeef"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def a_worker(id: str = ID, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"id": id, "kind": "celery", "state": "running", "serviceId": "python"}
    given |= {"name": "worker-4711@host-a", "hostname": "host-a", "pid": 4711, "version": "ab" * 32}
    given |= {"queues": ["pipeweave.default.python"], "places": 4, "busy": 3, "taskCount": 2}
    given |= {"startedAt": SINCE, "heartbeatAt": SINCE, "heartbeatAgeMs": 200.0, "stoppedAt": None}
    given |= {"lostAt": None, "lastFetchAt": SINCE, "rssBytes": 3 * 2**20, "cpuPercent": 12.5}
    given |= {"startsLastHour": 1200, "drainRequestedAt": None, "drainReason": None, "lastError": None}
    return given | {"tasks": ["count"], "taskRuns": [], "lostAttempts": []} | more


def list_of(served: Served, *found: dict[str, Any]) -> None:
    served.put("GET /api/workers", (200, {"workers": list(found), "nextCursor": None, "counts": {}}))


def test_workers_are_listed_with_their_load(call: Call, served: Served) -> None:
    list_of(served, a_worker(), a_worker("http:0123456789abcdef", kind="http", places=None, busy=None))
    result = call("workers")
    assert result.exit_code == 0
    heading, celery, http = result.output.splitlines()
    assert heading.split()[:3] == ["WORKER", "SERVICE", "STATE"]
    assert "3 of 4" in celery
    assert "3 MiB" in celery
    assert "12.5 %" in celery
    assert http.startswith("http:0123456789abcdef")


def test_no_workers_says_how_to_start_one(call: Call, served: Served) -> None:
    served.put("GET /api/workers?state=stalled", (200, {"workers": [], "nextCursor": None, "counts": {}}))
    assert "pipeweave worker --app" in call("workers", "--state", "stalled").output


def test_a_worker_is_drained_by_the_beginning_of_its_id(call: Call, served: Served) -> None:
    list_of(served, a_worker(), a_worker("worker-99@host-b:99:cafecafe"))
    served.put(f"POST /api/workers/{ID}/drain", (200, {"worker": a_worker(state="draining")}))
    result = call("workers", "drain", "worker-47", "--reason", "a new kernel")
    assert result.output == f"{ID} takes nothing more\n"
    assert served.asked[-1][2] == {"reason": "a new kernel"}


def test_an_ambiguous_and_an_unknown_beginning_are_refused(call: Call, served: Served) -> None:
    list_of(served, a_worker(), a_worker("worker-99@host-b:99:cafecafe"))
    several = call("workers", "drain", "worker")
    assert several.exit_code == 1
    assert "several workers begin with 'worker'" in several.stderr
    unknown = call("workers", "resume", "nobody")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "`pipeweave workers` lists them" in unknown.stderr


def test_what_was_lost_with_a_worker_is_shown_with_who_took_it_over(call: Call, served: Served) -> None:
    lost = {"id": "trun_" + "0" * 26, "taskId": "count", "attempt": 1, "lostAt": SINCE}
    lost |= {"status": "running", "worker": "worker-99@host-b:99:cafecafe#100"}
    list_of(served, a_worker())
    served.put(f"GET /api/workers/{ID}", (200, {"worker": a_worker(lostAttempts=[lost])}))
    shown = call("workers", "show", ID).output
    assert "Lost with it:" in shown
    assert lost["id"] in shown and "running" in shown


def test_a_worker_is_shown_with_what_it_runs(call: Call, served: Served) -> None:
    running = {"id": "trun_" + "0" * 26, "taskId": "count", "attempt": 1, "startedAt": SINCE}
    list_of(served, a_worker())
    served.put(f"GET /api/workers/{ID}", (200, {"worker": a_worker(taskRuns=[running])}))
    shown = call("workers", "show", ID).output
    assert "1,200" in shown or "1200" in shown
    assert running["id"] in shown


def test_the_labels_of_workers_are_listed_and_shown(call: Call, served: Served) -> None:
    labelled = a_worker(labels={"zone": "eu", "gpu": "a100"})
    list_of(served, labelled, a_worker("worker-99@host-b:99:cafecafe", labels={}))
    served.put(f"GET /api/workers/{ID}", (200, {"worker": labelled}))
    assert "gpu=a100, zone=eu" in call("workers", "show", ID).output
    assert "gpu=a100, zone=eu" in call("workers", "list").output
