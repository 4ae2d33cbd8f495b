"""`pipeweave compare` and `pipeweave why --all`: what they say of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, TASK_RUN, new_id, show

Call = Callable[..., Result]
LEFT, RIGHT = show(RUN, new_id()), show(RUN, new_id())
TASK_RUN_ID = show(TASK_RUN, new_id())


def run(id: str, took: float | None, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "pipelineVersion": 1,
        "status": "completed",
        "errorCode": None,
        "durationMs": took,
    } | more


def side(took: float | None, **more: Any) -> dict[str, Any]:
    return {"status": "completed", "attempt": 1, "durationMs": took} | more


def step(id: str, left: Any, right: Any, delta: float | None, same: bool | None) -> dict[str, Any]:
    return {"id": id, "left": left, "right": right, "deltaMs": delta, "hasSameOutput": same}


COMPARISON: dict[str, Any] = {
    "left": run(LEFT, 1_000.0),
    "right": run(RIGHT, 41_000.0, pipelineVersion=2, status="failed", errorCode="STEP_FAILED"),
    "deltaMs": 40_000.0,
    "input": {
        "isSame": False,
        "differences": [
            {"path": ".day", "change": "changed", "left": 1, "right": 2, "isCut": False},
            {"path": ".new\x1b[31m", "change": "added", "left": None, "right": True, "isCut": False},
        ],
        "isComplete": True,
    },
    "version": {"left": 1, "right": 2, "added": ["mail"], "removed": [], "changed": []},
    "steps": [
        step("resize", side(500.0), side(40_400.0, status="failed", attempt=3), 39_900.0, None),
        step("list", side(400.0), side(300.0), -100.0, True),
        step("mail", None, side(None, status="pending"), None, None),
    ],
    "isComplete": False,
}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_two_runs_are_compared_in_a_table(call: Call, served: Served) -> None:
    served.put(f"GET /api/runs/{LEFT}/compare/{RIGHT}?limit=3", (200, COMPARISON))
    result = call("compare", LEFT, RIGHT, "--limit", "3")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["difference", "+40.0", "s"] in lines
    assert [".day:", "1", "->", "2"] in lines
    assert "\x1b" not in result.stdout
    assert "resize completed -> failed 1 -> 3 500 ms 40.4 s +39.9 s -".split() in lines  # noqa: SIM905
    assert ["list", "completed", "1", "400", "ms", "300", "ms", "-100", "ms", "the", "same"] in lines
    assert ["mail", "pending", "1", "-", "-", "only", "right", "-"] in lines
    assert "The 3 steps that differ most" in result.stderr


def test_a_comparison_is_printed_as_json(call: Call, served: Served) -> None:
    served.put(f"GET /api/runs/{LEFT}/compare/{RIGHT}?limit=20", (200, COMPARISON))
    assert json.loads(call("compare", LEFT, RIGHT, "--json").stdout) == COMPARISON


def test_why_sums_up_a_run(call: Call, served: Served) -> None:
    reason = {
        "count": 400,
        "taskId": "resize",
        "status": "ready",
        "kind": "item",
        "taskRunId": TASK_RUN_ID,
        "code": "concurrency_limit",
        "text": "its task allows 4 at once",
        "reasons": [],
    }
    answer: dict[str, Any] = {
        "runId": LEFT,
        "open": 404,
        "running": 4,
        "waiting": 400,
        "summary": "400 wait: 400 for a slot of resize",
        "reasons": [reason],
        "isComplete": True,
    }
    served.put(f"GET /api/runs/{LEFT}/why", (200, answer), (200, {**answer, "summary": None, "reasons": []}))
    assert call("why", LEFT, "--all").stdout == (
        "400 wait: 400 for a slot of resize; 4 running\n  400 of resize, ready: its task allows 4 at once\n"
    )
    assert call("why", LEFT, "--all").stdout == "nothing waits; 4 running\n"
    assert call("why", LEFT, "resize", "--all").exit_code == 2
    assert call("why", TASK_RUN_ID, "--all").exit_code == 2


def test_a_run_is_not_compared_with_itself(call: Call) -> None:
    result = call("compare", LEFT, LEFT)
    assert result.exit_code == 2
    assert f"both are run {LEFT}" in result.stderr
