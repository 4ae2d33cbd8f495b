"""`pipeweave retest`: which runs it takes, what it prints, how it exits."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, TASK_RUN, new_id, run_id_of, show, task_run_id

Call = Callable[..., Result]
RUN_ID = run_id_of(new_id())
SHOWN = show(RUN, RUN_ID)

APP = """
from pipeweave import pipeline, task

@task
def first(a: int) -> dict[str, int]:
    return {"n": a * 2, "gone": 1}

@task
def second(n: int) -> int:
    return n + 1

@pipeline
def nightly(a: int):
    return second(first(a))
"""


def detail(number: int, step: str, **members: Any) -> dict[str, Any]:
    usual = {"kind": "task", "status": "completed", "attempt": 1, "params": None, "selectedNext": None}
    id = show(TASK_RUN, task_run_id(RUN_ID, number))
    usual |= {"maxAttempts": 1, "mapIndex": None, "mapCount": None, "runId": SHOWN, "attempts": []}
    return {**usual, "id": id, "stepId": step, "taskId": step, "input": {"a": 2}, **members}


STEPS = [
    detail(1, "first", output={"n": 4}),
    detail(2, "second", output=5, params={"n": "${steps.first.n}"}),
    detail(3, "third", output=None),
]
RUN_DOCUMENT: dict[str, Any] = {
    "id": SHOWN,
    "pipelineId": "nightly",
    "pipelineVersion": 3,
    "status": "completed",
    "failureMode": "fail-fast",
    "createdAt": "2026-03-01T10:00:00.000Z",
    "finishedAt": "2026-03-01T10:00:00.000Z",
    "body": None,
    "input": {"a": 2},
}
BEFORE = {
    "id": "nightly",
    "steps": [
        {"id": "first", "task": "first"},
        {"id": "second", "task": "second", "params": {"n": "${steps.first.n + 1}"}},
        {"id": "third", "task": "third", "needs": ["second"]},
    ],
}


@pytest.fixture(scope="module", autouse=True)
def own_definitions() -> Iterator[None]:
    """Other tests of this process have defined tasks and pipelines, too, and some that are wrong."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys.modules["pipeweave.authoring.task"], "_registry", {})
        patched.setattr(sys.modules["pipeweave.authoring.task"], "_duplicates", {})
        patched.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: a process loads a module once."""
    path = tmp_path_factory.mktemp("retested")
    (path / "again.py").write_text(APP)
    return path


@pytest.fixture
def call(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    served.put(f"GET /api/runs/{SHOWN}/task-runs?limit=500", (200, {"taskRuns": STEPS, "nextCursor": None}))
    served.put(f"GET /api/runs/{SHOWN}?load=true", (200, RUN_DOCUMENT))
    served.put("GET /api/pipelines/nightly?version=3", (200, {"pipeline": {"spec": BEFORE}}))
    for each in STEPS:
        served.put(f"GET /api/task-runs/{each['id']}?load=true", (200, each))
    return lambda *arguments: CliRunner().invoke(main, ["retest", *arguments, "--app", "again.py"])


def test_each_step_is_called_with_its_inputs_and_compared(call: Call) -> None:
    result = call(SHOWN)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "1 same, 1 different, 0 failed, 1 skipped",
        "decisions of runs: 0 same, 1 different, 0 uncompared",
    ]
    assert result.stdout.splitlines() == [
        f"{SHOWN} first different",
        "  .gone: None -> 1",
        f"{SHOWN} second same",
        f"{SHOWN} third skipped: the code has no such task",
        f"{SHOWN} step second: was given other params",
        "  .n: 5 -> {'n': 4}",
        f"{SHOWN} step third: was completed, now is gone",
    ]


def test_chosen_tasks_alone_are_called_and_the_exit_says_that_they_agree(call: Call) -> None:
    result = call(SHOWN, "--only", "second", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["counts"]) == (0, {"same": 1})
    assert document["steps"][0]["step"] == "second"


def test_a_run_of_another_pipeline_is_called_and_its_decisions_are_not_compared(
    call: Call, served: Served
) -> None:
    served.put(f"GET /api/runs/{SHOWN}?load=true", (200, {**RUN_DOCUMENT, "pipelineId": "weekly"}))
    first = {**STEPS[0], "output": {"n": 4, "gone": 1}}
    served.put(f"GET /api/task-runs/{first['id']}?load=true", (200, first))
    result = call(SHOWN)
    assert (result.exit_code, result.stderr.splitlines()[1][-12:]) == (0, "1 uncompared")
    assert f"{SHOWN} decisions not compared: the app has no pipeline weekly" in result.stdout


def test_without_calls_nothing_is_called_and_decisions_are_compared(call: Call) -> None:
    result = call(SHOWN, "--no-calls", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["counts"], document["steps"]) == (1, {}, [])
    [row] = document["decisions"]
    assert [each["what"] for each in row["changes"]] == ["params", "step"]
    assert (row["run"], row["isComplete"], row["undecided"]) == (SHOWN, True, {})


def test_a_version_that_is_deleted_is_done_without(call: Call, served: Served) -> None:
    del served.answers["GET /api/pipelines/nightly?version=3"]
    assert call(SHOWN, "--no-calls").stdout == f"{SHOWN} step third: was completed, now is gone\n"


# --- files ------------------------------------------------------------------------------------------------


def lines(*documents: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


def test_runs_of_an_archive_and_of_exports_are_compared_alike(call: Call, folder: Path) -> None:
    taken = [each for each in STEPS if each["stepId"] != "third"]
    head = {"runId": SHOWN, "line": 1, "isLast": False, "run": RUN_DOCUMENT, "taskRuns": taken[:1]}
    more = {"runId": SHOWN, "line": 2, "isLast": True, "run": None, "taskRuns": taken[1:], "attempts": []}
    (folder / "part.jsonl.gz").write_bytes(gzip.compress(lines(head, more)))
    (folder / "runs.jsonl").write_bytes(lines(RUN_DOCUMENT))
    (folder / "task-runs.jsonl").write_bytes(lines(*STEPS))
    archived = call("--from", "part.jsonl.gz")
    assert (archived.exit_code, archived.stdout) == (0, "")
    assert archived.stderr == "decisions of runs: 1 same, 0 different, 0 uncompared\n"
    exported = call("--from", "runs.jsonl", "--from", "task-runs.jsonl", SHOWN[:12])
    assert (exported.exit_code, exported.stdout) == (1, f"{SHOWN} step third: was completed, now is gone\n")
    assert "no run prun_zz" in call("--from", "runs.jsonl", "prun_zz").stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "broken.jsonl: line 1 is not JSON"),
        (b'\n{"a": 1}', "broken.jsonl: line 2 is no run"),
        (b"", "hold no run"),
        (b"\x1f\x8bnothing", "broken.jsonl: "),
        (gzip.compress(b"{}" * 9999, mtime=0)[:-20], "broken.jsonl: "),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(
    call: Call, folder: Path, content: bytes, said: str
) -> None:
    (folder / "broken.jsonl").write_bytes(content)
    refused = call("--from", "broken.jsonl")
    assert (refused.exit_code, said in refused.stderr, refused.stdout) == (1, True, "")


def test_files_that_are_too_large_are_refused(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "runs.jsonl").write_bytes(lines(RUN_DOCUMENT))
    monkeypatch.setattr("pipeweave.cli.support.recorded_files.MOST_BYTES", 20)
    assert "more than 20 bytes" in call("--from", "runs.jsonl").stderr


def test_files_take_no_newest_runs(call: Call, folder: Path) -> None:
    (folder / "runs.jsonl").write_bytes(lines(RUN_DOCUMENT))
    assert call("--from", "runs.jsonl", "--last", "3").exit_code == 2
    assert call(SHOWN, "--only", "second", "--no-calls").exit_code == 2


@pytest.mark.parametrize("arguments", [(), (SHOWN, "--last", "3")])
def test_either_runs_or_a_number_of_them_are_named(call: Call, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2
