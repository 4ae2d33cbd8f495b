"""What a recorded task run would come to with the code of today."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pipeweave import Context, TaskError, TaskResult, task
from pipeweave.testing.refused_outside import WentOutside, refused_outside
from pipeweave.testing.retesting import Retested, retest

calls: list[object] = []


@task
def add(a: int, b: int = 1) -> dict[str, int]:
    calls.append(a)
    return {"sum": a + b}


def recorded(output: Any, **members: Any) -> dict[str, Any]:
    usual = {"status": "completed", "attempt": 1, "input": {"a": 1}, "params": None, "selectedNext": None}
    return {**usual, "output": output, "stepId": "s", "taskId": "add", **members}


def test_the_same_result_is_the_same_and_another_one_is_different() -> None:
    assert retest(add, recorded({"sum": 2}), {}).verdict == "same"
    assert retest(add, recorded({"sum": 3}), {}) == Retested("different", "", {"sum": 2}, None)


def test_params_get_the_recorded_values() -> None:
    params = {"a": "${steps.before.n}", "b": "${input.b}"}
    row = recorded({"sum": 12}, params=params, input={"b": 2})
    assert retest(add, row, {"before": {"n": 10}}).verdict == "same"


def test_items_get_their_item() -> None:
    @task
    def placed(ctx: Context, path: str) -> str:
        return f"{path} at {ctx.map_index}"

    row = recorded("x at 3", params={"path": "${item}"}, item="x", mapIndex=3)
    assert retest(placed, row, {}).verdict == "same"


def test_another_choice_of_successors_is_different() -> None:
    @task(allowed_next=["x", "y"])
    def route() -> TaskResult:
        return TaskResult(1, run_next=["x"])

    assert retest(route, recorded(1, selectedNext=["x"]), {}).verdict == "same"
    assert retest(route, recorded(1, selectedNext=["y"]), {}).verdict == "different"


def test_an_error_is_a_failure_with_its_message() -> None:
    @task
    def broken() -> None:
        raise TaskError("no", code="NO")

    assert retest(broken, recorded(None), {}) == Retested("failed", "TaskError: no")
    assert retest(add, recorded(None, input={"a": "many"}), {}).verdict == "failed"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"status": "failed"}, "failed"),
        ({"cachedFrom": "trun_1"}, "another task run"),
        ({"assets": {"a": {}}}, "files"),
        ({"outputRef": {"path": "p"}}, "not in the record"),
        ({"params": {"a": "${variables.x}"}}, "`variables`"),
    ],
)
def test_what_cannot_be_repeated_is_skipped_and_not_called(members: dict[str, Any], why: str) -> None:
    calls.clear()
    outcome = retest(add, recorded(1, **members), {})
    assert (outcome.verdict, why in outcome.why, calls) == ("skipped", True, [])


def test_a_task_that_is_gone_is_skipped() -> None:
    assert retest(None, recorded(1), {}) == Retested("skipped", "the code has no such task")


@pytest.mark.parametrize(
    "leave",
    [
        lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: subprocess.run(["true"], check=False),
        lambda: os.system("true"),
    ],
    ids=["connection", "name", "process", "shell"],
)
def test_a_call_that_leaves_the_process_is_skipped(leave: Callable[[], Any]) -> None:
    @task
    def leaves(ctx: Context) -> int:
        try:
            leave()
        except OSError as error:
            raise ValueError("wrapped") from error
        return 1

    outcome = retest(leaves, recorded(1), {})
    assert (outcome.verdict, outcome.why.startswith("it leaves the process: ")) == ("skipped", True)


def test_the_guard_holds_for_threads_and_for_the_block_alone() -> None:
    refusals: list[bool] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo("127.0.0.1", 80)
        except WentOutside:
            refusals.append(True)

    with refused_outside():
        thread = threading.Thread(target=look_up)
        thread.start()
        thread.join()
    look_up()
    assert refusals == [True]
