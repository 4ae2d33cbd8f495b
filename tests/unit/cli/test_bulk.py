"""`pipeweave bulk`: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import bulk as commands
from pipeweave.cli import main
from pipeweave.ids import BULK, RUN, new_id, show

Call = Callable[..., Result]
BULK_ID, RUN_ID = show(BULK, new_id()), show(RUN, new_id())
PATH = f"GET /api/bulk/{BULK_ID}"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "POLL_INTERVAL_S", 0)
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])


def change(status: str, changed: int = 0, skipped: int = 0) -> tuple[int, Any]:
    numbers = {"total": 5, "totalIsCapped": False, "changed": changed, "skipped": skipped}
    times = {"createdAt": "2026-11-20T12:00:00.000Z", "createdBy": "alice"}
    return 200, {"id": BULK_ID, "action": "cancel", "status": status, **numbers, **times}


def test_a_dry_run_counts_and_shows_some(call: Call, served: Served) -> None:
    plan = {
        "isDryRun": True,
        "action": "cancel",
        "matched": 1_200,
        "isComplete": False,
        "skipped": 2,
        "byStatus": {"pending": 1_200},
        "sample": [RUN_ID],
    }
    served.put("POST /api/bulk", (200, plan))
    result = call("bulk", "start", "cancel", "--pipeline", "nightly", "--status", "pending", "--dry-run")
    assert result.stdout == f"1,200 or more runs would be cancelled (1,200 pending)\n{RUN_ID}\n"
    assert "2 of those that are named are not concerned" in result.stderr
    assert served.asked[-1][2] == {
        "action": "cancel",
        "filter": {"status": ["pending"], "pipelineId": ["nightly"]},
        "dryRun": True,
    }


def test_every_option_is_sent(call: Call, served: Served) -> None:
    served.put("POST /api/bulk", change("running"))
    options = [
        "--run",
        RUN_ID,
        "--since",
        "2026-11-20T12:00:00Z",
        "--meta",
        "a=b",
        "--task",
        "t",
        "--min-ms",
        "5",
    ]
    more = [
        "--from",
        "report",
        "--version",
        "3",
        "--pipeline-version",
        "2",
        "--limit",
        "9",
        "--per-second",
        "2",
    ]
    result = call("bulk", "start", "rerun", *options, *more, "--key", "k", "--text", "x")
    assert result.exit_code == 0, result.output
    assert served.asked[-1][2] == {
        "action": "rerun",
        "filter": {
            "ids": [RUN_ID],
            "createdAfter": "2026-11-20T12:00:00Z",
            "text": "x",
            "meta": ["a=b"],
            "version": 2,
            "minMs": 5,
            "taskId": "t",
        },
        "fromStep": "report",
        "version": 3,
        "limit": 9,
        "perSecond": 2.0,
        "idempotencyKey": "k",
        "dryRun": False,
    }


@pytest.mark.parametrize(("skipped", "code"), [(0, 0), (1, 1)])
def test_it_waits_for_the_end(call: Call, served: Served, skipped: int, code: int) -> None:
    served.put("POST /api/bulk", change("running"))
    served.put(PATH, change("running", 2), change("completed", 4, skipped))
    result = call("bulk", "start", "cancel", "--status", "running", "--wait")
    told = f", {skipped} skipped" if skipped else ""
    assert result.stdout == f"{BULK_ID} completed: 4 of 5 runs cancelled{told}\n"
    assert result.exit_code == code


def test_a_wait_may_end_before(call: Call, served: Served) -> None:
    served.put("POST /api/bulk", change("running"))
    result = call("bulk", "start", "cancel", "--status", "running", "--wait", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "still running after 0 s" in result.stderr


def test_the_list_the_progress_and_the_stop(call: Call, served: Served) -> None:
    listed = {"bulkChanges": [change("running", 1)[1]], "nextCursor": "c1"}
    served.put("GET /api/bulk?limit=20", (200, listed))
    served.put("GET /api/bulk?limit=1000", (200, listed))
    served.put("GET /api/bulk?limit=1", (200, listed))
    assert BULK_ID in call("bulk", "list").output
    served.put(PATH, change("running", 3, 1))
    skipped = {"runId": RUN_ID, "outcome": "skipped", "errorCode": "CONFLICT", "error": "it has ended"}
    served.put(f"{PATH}/runs?limit=500&outcome=skipped", (200, {"runs": [skipped], "nextCursor": None}))
    shown = call("bulk", "show", BULK_ID[:12])
    assert shown.output == (
        f"{BULK_ID} running: 3 of 5 runs cancelled, 1 skipped\n{RUN_ID}: CONFLICT: it has ended\n"
    )
    served.put(f"POST /api/bulk/{BULK_ID}/cancel", change("cancelled", 3))
    assert call("bulk", "stop", "latest").output == f"{BULK_ID} cancelled: 3 of 5 runs cancelled\n"
    assert json.loads(call("bulk", "stop", BULK_ID, "--json").output)["status"] == "cancelled"


def test_a_filter_is_needed_and_an_id_is_one_of_its_kind(call: Call, served: Served) -> None:
    result = call("bulk", "start", "cancel")
    assert (result.exit_code, "give --run, or a filter" in result.stderr) == (2, True)
    other = call("bulk", "show", RUN_ID)
    assert (other.exit_code, "is the id of a run" in other.stderr) == (1, True)
    assert not served.asked
