"""`pipeweave pause | resume | cancel` of runs, one or all that match: what they ask and print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main

RUN = "prun_01m80arwk4e7k8d1q3w5v7x9za"
SINCE = "2026-11-20T12:00:00Z"
PAUSED = {"id": RUN, "pipelineId": "nightly", "status": "paused", "pausedAt": SINCE, "isRepeated": False}

Call = Callable[..., Result]


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])


def changed(
    matched: int, changed: int, *, is_complete: bool = True, is_dry_run: bool = False
) -> tuple[int, Any]:
    answer = {"matched": matched, "changed": changed, "runs": [RUN], "isDryRun": is_dry_run}
    return 200, answer | {"isComplete": is_complete}


def test_a_run_is_paused_and_resumed_by_its_id(call: Call, served: Served) -> None:
    served.put(f"POST /api/runs/{RUN}/pause", (200, PAUSED))
    served.put(f"POST /api/runs/{RUN}/resume", (200, {**PAUSED, "status": "running", "pausedAt": None}))
    paused = call("pause", RUN, "--reason", "full")
    assert paused.output == f"{RUN} is paused since 2026-11-20 12:00:00 UTC\n"
    assert served.asked[-1][2] == {"reason": "full"}
    assert call("resume", RUN).output == f"{RUN} is resumed (running)\n"
    assert json.loads(call("pause", RUN, "--json").output)["status"] == "paused"


def test_all_that_match_are_changed_request_after_request(call: Call, served: Served) -> None:
    served.put("POST /api/runs/bulk", changed(1_000, 999, is_complete=False), changed(5, 5))
    result = call("cancel", "--pipeline", "nightly", "--status", "pending", "--reason", "the wrong day")
    assert result.output == "1,004 runs cancelled\n"
    assert [each[2] for each in served.asked] == 2 * [
        {
            "action": "cancel",
            "filter": {"pipelineId": "nightly", "status": "pending"},
            "reason": "the wrong day",
            "dryRun": False,
        }
    ]


def test_a_dry_run_names_the_runs_and_asks_once(call: Call, served: Served) -> None:
    served.put("POST /api/runs/bulk", changed(1_000, 0, is_complete=False, is_dry_run=True))
    result = call("pause", "--pipeline", "nightly", "--dry-run")
    assert result.output == f"1,000 or more runs would be paused\n{RUN}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cancel"], "give RUN, or --pipeline or --status"),
        (["cancel", RUN, "--status", "running"], "not both"),
        (["pause", "--dry-run"], "--dry-run needs --pipeline or --status"),
        (["resume", "charge", "--pipeline", "nightly"], "not both"),
    ],
)
def test_mistakes_are_told_and_nothing_is_asked(
    call: Call, served: Served, arguments: list[str], said: str
) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert served.asked == []
