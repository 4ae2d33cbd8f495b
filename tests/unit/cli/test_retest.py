"""`pipeweave retest`: which runs it takes, what it prints, how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from pipeweave import task

@task
def first(a: int) -> dict[str, int]:
    return {"n": a * 2, "gone": 1}

@task
def second(n: int) -> int:
    return n + 1
"""


def detail(number: int, step: str, **members: Any) -> dict[str, Any]:
    usual = {"kind": "task", "status": "completed", "attempt": 1, "params": None, "selectedNext": None}
    id = show(TASK_RUN, task_run_id(RUN_ID, number))
    return {**usual, "id": id, "stepId": step, "taskId": step, "input": {"a": 2}, **members}


STEPS = [
    detail(1, "first", output={"n": 4}),
    detail(2, "second", output=5, params={"n": "${steps.first.n}"}),
    detail(3, "third", output=None),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: a process loads a module once."""
    path = tmp_path_factory.mktemp("retested")
    (path / "again.py").write_text(APP)
    return path


@pytest.fixture
def call(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(folder)
    # Other tests of this process have defined tasks of one name.
    monkeypatch.setattr("pipeweave.authoring.task_loading.duplicate_tasks", dict)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    served.put(f"GET /api/runs/{SHOWN}/task-runs?limit=500", (200, {"taskRuns": STEPS, "nextCursor": None}))
    for each in STEPS:
        served.put(f"GET /api/task-runs/{each['id']}?load=true", (200, each))
    return lambda *arguments: CliRunner().invoke(main, ["retest", *arguments, "--app", "again.py"])


def test_each_step_is_called_with_its_inputs_and_compared(call: Call) -> None:
    result = call(SHOWN)
    assert (result.exit_code, result.stderr) == (1, "1 same, 1 different, 0 failed, 1 skipped\n")
    assert result.stdout.splitlines() == [
        f"{SHOWN} first different",
        "  .gone: None -> 1",
        f"{SHOWN} second same",
        f"{SHOWN} third skipped: the code has no such task",
    ]


def test_chosen_tasks_alone_are_called_and_the_exit_says_that_they_agree(call: Call) -> None:
    result = call(SHOWN, "--only", "second", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["counts"]) == (0, {"same": 1})
    assert document["steps"][0]["step"] == "second"


@pytest.mark.parametrize("arguments", [(), (SHOWN, "--last", "3")])
def test_either_runs_or_a_number_of_them_are_named(call: Call, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2
