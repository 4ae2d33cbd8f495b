"""`pipeweave restart`, `up --reload` and `pipeweave logs` on a stack that stays up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_stack import StackFolder, running_stack
from support.servers import wait_until

from pipeweave.up.leftovers import birth

TASKS = """
import time
from pathlib import Path

from pipeweave import Context, task
from words import HELLO


@task
def greet(name: str, ctx: Context) -> str:
    ctx.log.info("greeting %s", name)
    return f"{HELLO} {name}"


@task
def wait_for(file: str) -> int:
    Path(file).with_suffix(".begun").touch()
    while not Path(file).exists():
        time.sleep(0.05)
    return 1
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackFolder]:
    folder = tmp_path_factory.mktemp("reloading")
    say(folder, "hello")
    with running_stack(folder, "--reload", "--concurrency", "2", tasks=TASKS) as stack:
        yield stack


def say(folder: Path, word: str) -> None:
    """Write the module beside the app, as editors do: all of it at once."""
    fresh = folder / "words.new"
    fresh.write_text(f"HELLO = {word!r}\n" if word.isalpha() else word)
    os.replace(fresh, folder / "words.py")


def pid(stack: StackFolder, name: str = "worker-1") -> int:
    rows = [row for row in _rows(stack) if row["name"] == name and row["state"] == "running"]
    return int(rows[-1]["pid"]) if rows else 0


def _rows(stack: StackFolder) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((stack.data / "run" / "processes.json").read_text())
    return found


def wait_for_another_worker(stack: StackFolder, before: int) -> None:
    wait_until(lambda: pid(stack) not in (0, before), what="the worker was not replaced" + stack.logs())


def test_restart_replaces_the_workers(stack: StackFolder) -> None:
    before = pid(stack)
    done = stack.call("restart")
    assert (done.returncode, done.stdout) == (0, "Restarted worker-1\n"), done.stderr
    assert pid(stack) != before
    wait_until(lambda: birth(before) is None)
    assert stack.greeting("Ada") == "hello Ada"


def test_restart_with_names_waits_until_the_processes_are_ready(stack: StackFolder) -> None:
    before = {name: pid(stack, name) for name in ("api", "beat", "worker-1")}
    done = stack.call("restart", "api", "beat", "--json")
    assert json.loads(done.stdout) == {"restarted": ["api", "beat"]}
    changed = {name for name, old in before.items() if pid(stack, name) != old}
    assert changed == {"api", "beat"}
    with stack.client() as client:
        assert client.health()["status"] in ("ok", "degraded")


def test_a_process_that_is_not_there_is_answered_with_those_that_are(stack: StackFolder) -> None:
    done = stack.call("restart", "wroker-1")
    assert done.returncode == 1
    assert "did you mean 'worker-1'?" in done.stderr


def test_a_change_of_an_imported_module_restarts_the_workers(stack: StackFolder) -> None:
    before = pid(stack)
    say(stack.folder, "hi")
    wait_for_another_worker(stack, before)
    assert stack.greeting("Ada") == "hi Ada"


def test_a_running_task_run_ends_while_the_code_is_replaced(stack: StackFolder) -> None:
    before, file = pid(stack), stack.folder / "go"
    with stack.client() as client:
        task_run_id = client.queue("wait_for", {"file": str(file)})["runId"]
        wait_until(file.with_suffix(".begun").exists)
        say(stack.folder, "ahoy")
        wait_for_another_worker(stack, before)
        file.touch()
        wait_until(lambda: client.task_run(task_run_id)["status"] == "completed")
        assert client.task_run(task_run_id)["attempt"] == 1


def test_the_workers_are_scaled_and_what_a_removed_one_ran_uses_up_no_attempt(stack: StackFolder) -> None:
    done = stack.call("scale", "worker", "2")
    assert (done.returncode, done.stdout) == (0, "Started worker-2\n"), done.stderr
    assert stack.call("scale", "worker", "2").stdout == "2 workers run already\n"
    shown = stack.ps()
    assert all(int(str(shown[f"worker-{number}"]["memoryBytes"])) > 10**7 for number in (1, 2))
    assert all(shown[name]["cpuPercent"] is not None for name in ("postgres", "valkey", "api", "beat"))
    file = stack.folder / "scaled"
    with stack.client() as client:
        stack.call("stop", "worker-1")
        assert stack.ps()["worker-1"]["state"] == "stopped"
        task_run_id = client.queue("wait_for", {"file": str(file)})["runId"]
        wait_until(file.with_suffix(".begun").exists)
        # It stops worker-2, which runs it, and starts worker-1, which takes it over.
        done = stack.call("scale", "worker", "1", "--json")
        assert json.loads(done.stdout) == {"started": ["worker-1"], "removed": ["worker-2"]}
        assert "worker-2" not in stack.ps()
        file.touch()
        wait_until(lambda: client.task_run(task_run_id)["status"] == "completed")
    refused = stack.call("stop", "postgres")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "keeps the data" in refused.stderr


def test_code_that_cannot_be_loaded_replaces_nothing_until_it_is_mended(stack: StackFolder) -> None:
    before, word = pid(stack), stack.greeting("Ada")
    say(stack.folder, "HELLO = (\n")
    wait_until(lambda: "worker-1: the new process did not start" in stack.call("logs", "up").stdout)
    assert (pid(stack), stack.greeting("Ada")) == (before, word)
    assert "words.py" in str(stack.ps()["worker-1"]["lastExit"])
    refused = stack.call("restart")
    assert refused.returncode == 1
    assert "words.py" in refused.stderr
    say(stack.folder, "goodday")
    wait_for_another_worker(stack, before)
    assert stack.greeting("Ada") == "goodday Ada"
    assert stack.ps()["worker-1"]["lastExit"] is None


def test_the_log_lines_of_a_run_are_found(stack: StackFolder) -> None:
    with stack.client() as client:
        task_run_id = client.queue("greet", {"name": "Grace"})["runId"]
        wait_until(lambda: client.task_run(task_run_id)["status"] == "completed")

    def lines() -> list[str]:
        return stack.call("logs", "--run", task_run_id).stdout.splitlines()

    wait_until(lambda: any("greeting Grace" in each for each in lines()))
    assert all(task_run_id in each for each in lines()), lines()
