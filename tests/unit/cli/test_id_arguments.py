"""Ids on the command line: whole, by their beginning, or `latest`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import DEAD_LETTER, REDRIVE, RUN, TASK_RUN, new_id, run_id_of, show, task_run_id

Call = Callable[..., Result]
RUN_UUID = run_id_of(new_id())
RUN_ID, LETTER, REDRIVE_ID = (show(kind, RUN_UUID) for kind in (RUN, DEAD_LETTER, REDRIVE))
TASK_RUN_ID = show(TASK_RUN, task_run_id(RUN_UUID, 1))
SHORT = RUN_ID[5:17]
RUN_DOCUMENT = {"id": RUN_ID, "pipelineId": "a", "pipelineVersion": 1, "status": "completed", "steps": []}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    served.put(f"GET /api/runs/{RUN_ID}", (200, RUN_DOCUMENT))
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])


def runs(*found: str) -> tuple[int, Any]:
    return 200, {"runs": [{**RUN_DOCUMENT, "id": each} for each in found], "nextCursor": None}


def test_a_whole_id_needs_no_search(served: Served, call: Call) -> None:
    assert call("status", RUN_ID).exit_code == 0
    assert [asked for asked, _, _ in served.asked] == [f"GET /api/runs/{RUN_ID}"]


@pytest.mark.parametrize("given", [SHORT, f"prun_{SHORT}", SHORT.upper()], ids=["plain", "prefixed", "upper"])
def test_a_beginning_that_fits_one_run_stands_for_it(served: Served, call: Call, given: str) -> None:
    served.put(f"GET /api/runs?limit=6&idPrefix=prun_{SHORT}", runs(RUN_ID))
    assert RUN_ID in call("status", given).stdout


def test_a_beginning_of_several_runs_names_five_of_them(served: Served, call: Call) -> None:
    several = [show(RUN, new_id()) for _ in range(6)]
    served.put(f"GET /api/runs?limit=6&idPrefix=prun_{SHORT}", runs(*several))
    result = call("status", SHORT)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"several runs begin with '{SHORT}': {', '.join(several[:5])}, …" in result.stderr
    assert several[5] not in result.stderr


def test_what_begins_no_run_is_not_found(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs?limit=6&idPrefix=prun_{SHORT}", runs())
    for given in (SHORT, "nonsense!", "prun_"):
        result = call("status", given)
        assert result.exit_code == 1
        assert f"run '{given}' not found; `pipeweave runs` lists the runs" in result.stderr


def test_latest_is_the_newest_run_or_the_newest_of_a_pipeline(served: Served, call: Call) -> None:
    served.put("GET /api/runs?limit=1", runs(RUN_ID))
    served.put("GET /api/runs?pipelineId=nightly&limit=1", runs(RUN_ID))
    assert RUN_ID in call("status", "latest").stdout
    assert RUN_ID in call("status", "latest", "--pipeline", "nightly").stdout
    served.put("GET /api/runs?limit=1", runs())
    assert "no run found" in call("status", "latest").stderr


def test_the_id_of_something_else_is_refused_by_its_kind(call: Call) -> None:
    assert "is the id of a dead letter, not of a run" in call("status", LETTER).stderr
    assert "is the id of a run, not of a dead letter" in call("dlq", "retry", RUN_ID).stderr


def test_dead_letters_and_redrives_are_found_alike(served: Served, call: Call) -> None:
    found = (200, {"items": [{"id": LETTER}], "nextCursor": None})
    served.put(f"GET /api/dlq?status=all&limit=6&idPrefix=dlq_{SHORT}", found)
    served.put("GET /api/dlq?limit=1", found)
    retried = {"newRunId": RUN_ID, "taskRunId": TASK_RUN_ID, "status": "queued", "codeVersion": 2}
    served.put(f"POST /api/dlq/{LETTER}/retry", (200, retried))
    for given in (SHORT, "latest"):
        assert call("dlq", "retry", given).stdout == f"{RUN_ID} queued (code v2)\n"
    served.put(
        f"GET /api/dlq/redrives?idPrefix=rdr_{SHORT}&limit=6", (200, {"redrives": [{"id": REDRIVE_ID}]})
    )
    progress = {"id": REDRIVE_ID, "status": "running", "retried": 1, "skipped": 0, "total": 2}
    served.put(f"GET /api/dlq/redrives/{REDRIVE_ID}", (200, progress))
    assert REDRIVE_ID in call("dlq", "redrive", SHORT).stdout


WHY = {"status": "ready", "reasons": [{"code": "task_paused", "text": "its task is paused"}]}


def test_why_takes_a_task_run_a_run_or_a_step_of_it(served: Served, call: Call) -> None:
    item = {"id": TASK_RUN_ID, "stepId": "charge", "kind": "item", "mapIndex": 3, "status": "ready"}
    steps = [{"id": "charge", "taskRunId": TASK_RUN_ID}]
    served.put(f"GET /api/runs/{RUN_ID}", (200, {**RUN_DOCUMENT, "steps": steps, "taskRuns": [item]}))
    served.put(
        f"GET /api/runs/{RUN_ID}/task-runs?limit=500&stepId=charge",
        (200, {"taskRuns": [item], "nextCursor": None}),
    )
    served.put(f"GET /api/task-runs?idPrefix={TASK_RUN_ID[:20]}&limit=6", (200, {"taskRuns": [item]}))
    served.put(f"GET /api/task-runs/{TASK_RUN_ID}/why", (200, {**WHY, "taskRunId": TASK_RUN_ID}))
    for arguments in ([TASK_RUN_ID], [TASK_RUN_ID[:20]], [RUN_ID], [RUN_ID, "charge"], [RUN_ID, "charge[3]"]):
        assert "its task is paused" in call("why", *arguments).stdout


def test_why_of_a_run_that_has_ended_says_so(call: Call) -> None:
    assert "has ended (completed) and waits for nothing" in call("why", RUN_ID).stderr


def test_why_of_a_paused_run_without_open_steps_says_what_it_waits_for(served: Served, call: Call) -> None:
    served.put(f"GET /api/runs/{RUN_ID}", (200, {**RUN_DOCUMENT, "status": "paused", "taskRuns": []}))
    reason = {"code": "run_paused", "text": "the run is paused since 2026-01-01T00:00:00Z by ana"}
    summed = {"summary": "The run waits to be resumed", "running": 0, "reason": reason, "reasons": []}
    served.put(f"GET /api/runs/{RUN_ID}/why", (200, summed))
    done = call("why", RUN_ID)
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        ["The run waits to be resumed; 0 running", "  the run is paused since 2026-01-01T00:00:00Z by ana"],
    )
