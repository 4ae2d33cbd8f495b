"""A worker on a machine that cannot confine leaves out the tasks with a sandbox."""

from __future__ import annotations

import logging

import pytest

from pipeweave import Sandbox
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_loading import Loaded
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.errors import FieldError, InvalidTask
from pipeweave.http_worker.worker import HttpWorker
from pipeweave.workers.process.confinable import confinable


def loaded(*boxed: str) -> Loaded:
    def made(id: str) -> Task[[], None]:
        sandbox = Sandbox() if id in boxed else None
        return Task(lambda: None, TaskSpec(id=id, code_hash="0" * 64, sandbox=sandbox))

    return Loaded({id: made(id) for id in ("a", "b", "c")}, [])


def test_tasks_with_a_sandbox_are_left_out_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        left = confinable(loaded("a", "c"), lambda: "Landlock is missing")
    assert list(left.tasks) == ["b"]
    [line] = [vars(each) for each in caplog.records]
    assert line["msg"] == "task.not_confinable"
    assert (line["code"], line["tasks"], line["reason"]) == (
        "SANDBOX_UNAVAILABLE",
        "a, c",
        "Landlock is missing",
    )


def test_a_machine_that_can_confine_loads_all() -> None:
    assert list(confinable(loaded("a"), lambda: None).tasks) == ["a", "b", "c"]


def test_nothing_is_asked_where_no_task_has_a_sandbox() -> None:
    def asked() -> str | None:
        raise AssertionError("nothing needs a box")

    assert len(confinable(loaded(), asked).tasks) == 3


def test_an_http_worker_refuses_tasks_whose_limits_it_cannot_keep() -> None:
    limited = [*loaded("b").tasks.values()]
    with pytest.raises(InvalidTask) as caught:
        HttpWorker("shop", "http://localhost:1", "s" * 40, tasks=limited, port=0, token="t", tenant="x")
    assert caught.value.errors == (FieldError("b", "has a sandbox, memory or cpu", "unsupported"),)
