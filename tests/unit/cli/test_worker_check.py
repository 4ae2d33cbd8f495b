"""`pipeweave worker check`: what it prints, and how it ends."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeweave.cli import main

TINY = Path(__file__).parents[2] / "support" / "tiny_worker.py"
SOME = [word for name in ("registration", "report", "duplicate-dispatch") for word in ("--only", name)]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.setenv("COLUMNS", "80")


def call(*arguments: str, faults: str = "") -> Result:
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(TINY))} {faults}"
    return CliRunner().invoke(main, ["worker", "check", "--command", command, *arguments])


def test_a_good_worker_ends_with_0() -> None:
    answer = call(*SOME)
    assert answer.exit_code == 0, answer.output
    lines = answer.output.splitlines()
    assert lines[1].startswith("PASS  registration        POST /api/services by tiny: echo, slow, fail, ")
    assert lines[-1] == "3 checks: 3 passed, 0 warnings, 0 failed, 0 skipped"


def test_a_warning_says_what_to_do_and_ends_with_0() -> None:
    answer = call(*SOME, faults="duplicate-dispatch")
    assert answer.exit_code == 0, answer.output
    assert "WARN  duplicate-dispatch  the run was done and reported" in answer.output
    assert "expected: a dispatch that comes again" in answer.output
    assert "to do: remember the runIds" in answer.output
    assert max(map(len, answer.output.splitlines()[1:])) <= 80


def test_a_failure_ends_with_1() -> None:
    answer = call(*SOME, faults="registration")
    assert answer.exit_code == 1
    assert "FAIL  registration" in answer.output
    assert "tasks[0].timeout must be a number of seconds" in " ".join(answer.output.split())


def test_json_has_everything_on_standard_output() -> None:
    answer = call(*SOME, "--json", faults="duplicate-dispatch")
    document = json.loads(answer.stdout)
    assert document["status"] == "warn"
    assert document["counts"] == {"pass": 2, "warn": 1}
    assert [each["name"] for each in document["checks"]] == ["registration", "report", "duplicate-dispatch"]
    assert set(document["checks"][0]) == {"name", "level", "expected", "happened", "toDo"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "hartbeat"], "did you mean 'heartbeat'?"),
        (["--input", "{"], "--input is not JSON"),
        (["--listen", "nowhere"], "--listen must be HOST:PORT"),
        (["localhost:8080"], "write it as http://127.0.0.1:8080"),
        (["--task", "ecko"], "did you mean 'echo'?"),
    ],
)
def test_mistakes_are_one_line_on_standard_error(arguments: list[str], said: str) -> None:
    answer = call(*arguments)
    assert answer.exit_code == 1
    assert said in answer.stderr
    assert len([line for line in answer.stderr.splitlines() if line.startswith("pipeweave: ")]) == 1


def test_a_port_that_is_taken_is_said() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = call("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("pipeweave: PORT_IN_USE: ")


def test_without_a_worker_the_values_that_it_needs_are_printed() -> None:
    answer = CliRunner().invoke(main, ["worker", "check", "--wait", "0.1", *SOME])
    assert answer.exit_code == 1
    assert "  ORCHESTRATOR_URL=http://127.0.0.1:" in answer.output
    assert "  PIPEWEAVE_SECRET_KEY=" in answer.output
    assert "no registration came" in answer.output
