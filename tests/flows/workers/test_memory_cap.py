"""A worker that takes more memory than it may replaces what has grown, and no attempt is lost with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_stack import LiveStack, StackMaker

from pipeweave.workers.process.memory_watch import RESTART_CODE

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="no shares are told")

# The parent grows when it is told to: its thread does not survive the fork into children.
GREEDY = """
import os
import threading
import time

from pipeweave import task

held = []


def _grow_when_told():
    while not os.path.exists({told!r}):
        time.sleep(0.05)
    held.append(bytearray(os.urandom(1) * 200_000_000))


threading.Thread(target=_grow_when_told, daemon=True).start()


@task
def hold(megabytes: int) -> int:
    held.append(bytearray(os.urandom(1) * megabytes * 1_000_000))
    return os.getpid()


@task
def wait_for(file: str) -> int:
    open(file + ".begun", "w").close()
    while not os.path.exists(file):
        time.sleep(0.05)
    return os.getpid()
"""
HOLD = {
    "id": "hold",
    "steps": [{"id": "only", "task": "hold", "params": {"megabytes": "${input.megabytes}"}}],
}
WAIT = {"id": "wait", "steps": [{"id": "only", "task": "wait_for", "params": {"file": "${input.file}"}}]}


@pytest.fixture
def stack(make_stack: StackMaker, tmp_path: Path) -> Iterator[LiveStack]:
    (tmp_path / "greedy.py").write_text(GREEDY.format(told=str(tmp_path / "grow")))
    with make_stack(tmp_path) as own:
        own.variables["WORKER_MAX_MEMORY"] = "150"
        yield own


def held_by(stack: LiveStack, megabytes: int) -> int:
    """The process id of the child that holds so much from now on."""
    run_id = stack.trigger("hold", {"megabytes": megabytes})
    assert stack.finished(run_id).status == "completed"
    assert [each.attempt for each in stack.task_runs(run_id)] == [1]
    return int(stack.output(stack.task_runs(run_id)[0]))


def test_a_worker_above_its_cap_replaces_the_child_that_has_grown(stack: LiveStack, tmp_path: Path) -> None:
    stack.start_worker(str(tmp_path / "greedy.py"), concurrency=1)
    stack.store(HOLD)
    held_by(stack, 1)
    fat = held_by(stack, 120)
    replacements = "SELECT memory_replacements AS number FROM workers WHERE stopped_at IS NULL"
    stack.until(lambda: stack.rows(replacements)[0].number == 1, "nothing was replaced")
    stack.until(lambda: not os.path.exists(f"/proc/{fat}"), "the child is still there")
    assert held_by(stack, 1) != fat
    assert '"message":"worker.memory_exceeded"' in stack.logs()


def test_a_worker_that_has_grown_itself_ends_when_nothing_is_under_way(
    stack: LiveStack, tmp_path: Path
) -> None:
    worker = stack.start_worker(str(tmp_path / "greedy.py"), concurrency=1)
    stack.store(WAIT)
    file = tmp_path / "go"
    run_id = stack.trigger("wait", {"file": str(file)})
    stack.until((tmp_path / "go.begun").exists, "the task did not begin")
    (tmp_path / "grow").touch()
    drains = "SELECT 1 FROM workers WHERE stopping_at IS NOT NULL"
    stack.until(lambda: bool(stack.rows(drains)), "it does not drain")
    assert stack.run(run_id).status == "running", "it waits for what is under way"
    file.touch()
    assert stack.finished(run_id).status == "completed"
    assert [each.attempt for each in stack.task_runs(run_id)] == [1]
    assert stack.ended(worker) == RESTART_CODE
