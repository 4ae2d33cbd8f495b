"""`pipeweave enqueued`: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, new_id, show

Call = Callable[..., Result]
RUN_ID, FIRST_ID = show(RUN, new_id()), show(RUN, new_id())
AT = "2026-11-20T12:00:00.000Z"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])


def answer(*rows: dict[str, Any], cursor: str | None = None) -> tuple[int, Any]:
    counts = {"waiting": len(rows), "waitingIsCapped": False, "oldest": AT}
    return 200, {"enqueuedRuns": rows, "nextCursor": cursor, **counts, "refused": 0, "refusedIsCapped": False}


def row(**more: Any) -> dict[str, Any]:
    given = {"id": RUN_ID, "pipelineId": "charge", "runToken": "o12", "priority": None, "enqueuedBy": "shop"}
    given |= {"enqueuedAt": AT, "dueAt": AT, "tries": 0, "errorCode": None, "error": None}
    return {**given, "settledAt": None, "firstRunId": None, **more}


def test_what_waits_says_why(call: Call, served: Served) -> None:
    tried = row(tries=3, errorCode="NOT_FOUND", error="pipeline 'charge' not found")
    served.put("GET /api/enqueued?status=waiting&limit=20", answer(tried, cursor="c1"))
    result = call("enqueued")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for part in (RUN_ID, "charge", "shop", "3", "NOT_FOUND: pipeline 'charge' not found"):
        assert part in words
    assert result.stderr == "More: --cursor c1\n"
    found = json.loads(call("enqueued", "--json").stdout)
    assert (found["enqueuedRuns"], found["nextCursor"]) == ([tried], "c1")


def test_a_token_of_a_run_before_names_that_run(call: Call, served: Served) -> None:
    served.put("GET /api/enqueued?status=repeated&limit=5", answer(row(settledAt=AT, firstRunId=FIRST_ID)))
    result = call("enqueued", "--status", "repeated", "--limit", "5")
    assert FIRST_ID in result.stdout and "o12" in result.stdout


def test_none_is_said_in_words_and_another_status_is_refused(call: Call, served: Served) -> None:
    served.put("GET /api/enqueued?status=refused&limit=20", answer())
    assert "No enqueued run was refused." in call("enqueued", "--status", "refused").output
    assert call("enqueued", "--status", "lost").exit_code == 2
