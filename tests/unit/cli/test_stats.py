"""`pipeweave stats`: what it asks, and what it prints in 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main, stats
from pipeweave.cli.stats import LETTERS, sparkline
from pipeweave.client import Client

Call = Callable[..., Result]
AT = "2026-11-20T12:00:00.000Z"
MS = {"count": 4, "min": 1.0, "max": 9_000.0, "mean": 2_000.0, "p50": 40.0, "p95": 8_900.0, "p99": 8_900.0}
NONE = {**dict.fromkeys(MS), "count": 0}
RUNS = {"created": 4, "started": 4, "ended": 4, "completed": 3, "partial": 0, "failed": 1, "cancelled": 0}
RUNS_DOCUMENT: dict[str, Any] = {
    "from": AT,
    "to": AT,
    "bucket": "30m",
    "isRebuilding": False,
    "points": [
        {"at": AT, **RUNS, "durationMs": MS, "waitMs": NONE},
        {"at": AT, **dict.fromkeys(RUNS, 0), "durationMs": NONE, "waitMs": NONE},
    ],
    "summary": {**RUNS, "successRate": 0.75, "durationMs": MS, "waitMs": NONE},
}


# What a test says otherwise of it.
OTHERWISE: dict[str, Any] = {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the command asks its client for; the answer is RUNS_DOCUMENT."""
    calls: list[tuple[str, dict[str, Any]]] = []
    OTHERWISE.clear()

    def answer(name: str) -> Any:
        def method(self: Client, thing: str | None = None, **options: Any) -> dict[str, Any]:
            calls.append((f"{name} {thing}", options))
            return RUNS_DOCUMENT | OTHERWISE

        return method

    for name in ("run_stats", "task_stats"):
        monkeypatch.setattr(Client, name, answer(name))
    return calls


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["stats", *arguments, "--url", "http://127.0.0.1:9", "--token", "t"])

    return call


def test_figures_are_bars_and_sums(call: Call, asked: list[tuple[str, dict[str, Any]]]) -> None:
    result = call("--pipeline", "nightly", "--last", "24h")
    assert result.exit_code == 0, result.output
    assert asked[0][0] == "run_stats nightly"
    assert [options["bucket"] for _, options in asked] == ["1h"]
    lines = {each.split("  ")[0]: each for each in result.output.splitlines()}
    assert lines["ended"].rstrip().endswith("4")
    assert "≈ 8.9 s" in lines["took, p95"]
    assert "75.0%" in lines["success"]
    assert all(len(each) <= 80 for each in result.output.splitlines())


@pytest.mark.parametrize(
    ("first_at", "buckets"),
    [
        ("2026-11-20T11:50:00.000Z", ["1h", "1m"]),
        ("2026-11-20T10:00:00.000Z", ["1h", "5m"]),
        ("2026-11-19T14:00:00.000Z", ["1h"]),
        (None, ["1h", "1d"]),
    ],
)
def test_the_span_is_where_the_figures_are(
    call: Call, asked: list[tuple[str, dict[str, Any]]], first_at: str | None, buckets: list[str]
) -> None:
    nothing, something = RUNS_DOCUMENT["points"][1], RUNS_DOCUMENT["points"][0]
    points = [nothing, *([{**something, "at": first_at}] if first_at else []), {**nothing, "at": AT}]
    OTHERWISE.update(points=points)
    assert call().exit_code == 0
    assert [options["bucket"] for _, options in asked] == buckets


@pytest.mark.parametrize(
    ("last", "bucket"), [("30m", "1m"), ("6h", "10m"), ("7d", "6h"), ("90d", "2d"), ("366d", "30d")]
)
def test_the_bars_fit_into_80_columns(last: str, bucket: str) -> None:
    length = stats.milliseconds(last)
    assert length is not None
    assert stats._bucket(length) == bucket
    assert length / (stats.milliseconds(bucket) or 1) <= LETTERS


def test_what_makes_no_sense_is_refused(call: Call, asked: list[tuple[str, dict[str, Any]]]) -> None:
    assert call("--pipeline", "a", "--task", "b").exit_code == 2
    assert "30s, 5m" in call("--last", "soon").output
    assert asked == []


def test_the_highest_fills_the_letter() -> None:
    assert sparkline([0, None, 1, 4, 8]) == "  ▂▅█"
    assert sparkline([]) == ""


def test_the_client_asks_for_a_window(served: Served) -> None:
    served.put("GET /api/stats/tasks?taskId=a&bucket=5m", (200, {"points": []}))
    client = Client(served.url, token="t", tenant="default")
    assert client.task_stats("a", bucket="5m") == {"points": []}


def test_the_client_asks_about_many(served: Served) -> None:
    served.put("GET /api/stats/by-pipeline?pipelineId=a&pipelineId=b&recent=3", (200, {"pipelines": []}))
    served.put("GET /api/stats/by-pipeline?limit=5", (200, {"pipelines": [1]}))
    served.put("GET /api/stats/by-task?taskId=a&taskId=b", (200, {"tasks": []}))
    client = Client(served.url, token="t", tenant="default")
    assert client.stats_by_pipeline(["a", "b"], recent=3) == {"pipelines": []}
    assert client.stats_by_pipeline(limit=5) == {"pipelines": [1]}
    assert client.stats_by_task(["a", "b"]) == {"tasks": []}
    served.put("GET /api/stats/by-queue?queue=pipeweave.x.y", (200, {"queues": []}))
    assert client.stats_by_queue(["pipeweave.x.y"]) == {"queues": []}
