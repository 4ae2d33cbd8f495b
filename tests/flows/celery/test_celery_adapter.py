"""A step publishes to the user's own Celery workers, and goes on with what they report."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import group, signature
from support.api_server import running_api
from support.celery_worker import celery_worker
from support.live_stack import APPS, LiveStack, StackMaker
from support.servers import BrokerDatabases

from pipeweave.cli.support.celery_canvas import document_of


@pytest.fixture(scope="module")
def legacy_url(broker_databases: BrokerDatabases) -> Iterator[str]:
    """The broker of the user's own Celery app: a database of its own."""
    with broker_databases.one() as url:
        yield url


@pytest.fixture(scope="module")
def stack(
    make_stack: StackMaker, legacy_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveStack]:
    """A stack with the API, a worker that has the adapters and the user's app, and a worker of that app."""
    with (
        make_stack(tmp_path_factory.mktemp("beside")) as own,
        running_api(own.settings, tmp_path_factory.mktemp("api")) as api,
    ):
        own.variables |= {"PIPEWEAVE_TEST_LEGACY_BROKER": legacy_url, "PIPEWEAVE_ORCHESTRATOR_URL": api.url}
        own.start_worker("reporting.py", "--app", "pipeweave.adapters", concurrency=1)
        log = own.folder / "legacy.log"
        with celery_worker("reporting", APPS, log, own.variables, pool="prefork"):
            yield own


def step(action: str, task: str, **params: Any) -> dict[str, Any]:
    retry = {"attempts": 1}
    params = {"task": task, **params}
    return {"id": "only", "adapter": "celery", "action": action, "params": params, "retry": retry}


def ran(stack: LiveStack, step: dict[str, Any]) -> Any:
    run = stack.ran({"id": "beside", "steps": [step]})
    return stack.steps(run.id)["only"]


def test_the_result_of_a_celery_task_is_the_output_of_its_step(stack: LiveStack) -> None:
    row = ran(stack, step("call", "reporting.add", args=[2], kwargs={"two": 3}))
    assert (row.status, row.output) == ("completed", 5), stack.logs()


def test_an_imported_canvas_comes_to_what_celery_would_make_of_it(stack: LiveStack) -> None:
    add = partial(signature, "reporting.add")
    canvas = add(args=(1, 2)) | group(add(args=(10,)), add(args=(20,)) | add(args=(5,)))
    run = stack.ran(document_of(canvas, "imported"))
    assert run.status == "completed", stack.logs()
    outputs = {name: row.output for name, row in stack.steps(run.id).items()}
    assert outputs == {"add": 3, "add_2": 13, "add_3": 23, "add_4": 28}


def test_a_celery_task_that_fails_fails_its_step_with_its_text(stack: LiveStack) -> None:
    row = ran(stack, step("call", "reporting.fail", args=["no paper"]))
    assert (row.status, row.error_code) == ("failed", "ASYNC_FAILED")
    assert "no paper" in row.error["message"]


def test_a_celery_worker_process_that_is_killed_fails_the_step(stack: LiveStack) -> None:
    row = ran(stack, step("call", "reporting.die"))
    assert (row.status, row.error_code) == ("failed", "ASYNC_FAILED")


def test_a_celery_task_is_published_by_name_and_nobody_waits(stack: LiveStack, legacy_url: str) -> None:
    row = ran(stack, step("send", "elsewhere.mail", kwargs={"to": "ann"}, queue="elsewhere"))
    assert row.status == "completed"
    assert row.output["taskId"].endswith(".1")
    with redis.Redis.from_url(legacy_url) as client:
        assert client.llen("elsewhere") == 1


def test_no_log_of_the_celery_worker_holds_the_url_of_a_callback(stack: LiveStack) -> None:
    ran(stack, step("call", "reporting.add", args=[1, 2]))
    assert "/api/callbacks/" not in (stack.folder / "legacy.log").read_text()


def test_a_worker_without_a_celery_application_says_so(make_stack: StackMaker, tmp_path: Path) -> None:
    with make_stack(tmp_path) as own:
        own.start_worker("adapting.py", "--adapters", concurrency=1)
        row = ran(own, step("send", "reporting.add"))
        assert (row.status, row.error_code) == ("failed", "CELERY_APP_MISSING")
