"""Calls in boxes and within limits, from the message to the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support import boxed_code
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver
from support.uploads import an_upload

from pipeweave import Sandbox, async_reports, callback_tokens, ids
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.messaging.batching import group_into_messages
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.waits import callbacks
from pipeweave.orchestrator.waits.looking import look_at
from pipeweave.settings import Settings
from pipeweave.spec import parse_spec
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner

pytestmark = pytest.mark.usefixtures("machine_with_boxes")

SMALL = Sandbox(memory="64M", cpu="500ms", files=["tmp"])
SECRET_KEY, PASSWORD = "5e" * 32, "hunter2-hunter2"


def hog(kind: str) -> int:
    """Take too much of the worker's process."""
    kept = []
    while True:
        if kind == "memory":
            kept.append(bytearray(1 << 20))


OPTIONS: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "run": (boxed_code.run, {"sandbox": SMALL, "retries": 0, "timeout": 20}),
    "trusted": (boxed_code.run, {"sandbox": replace(SMALL, secrets=("DB",)), "retries": 0}),
    "suspends": (boxed_code.suspends, {"sandbox": SMALL, "retries": 0}),
    "without_folder": (boxed_code.run, {"sandbox": Sandbox(memory="64M"), "retries": 0}),
    "open": (boxed_code.attempt, {"retries": 0}),
    "waiting": (boxed_code.waiting, {"sandbox": SMALL}),
    "shared": (boxed_code.waiting, {"concurrent": 5, "retries": 0}),
    "hog": (hog, {"memory": "64M", "cpu": "200ms"}),
}


@pytest.fixture
def runner(isolated_driver: RunDriver, tmp_path: Path) -> Iterator[Runner]:
    driver = isolated_driver
    (tmp_path / driver.tenant).mkdir()
    for name in ("DB", "OTHER"):
        (tmp_path / driver.tenant / name).write_text(PASSWORD)
    listed = [a_task(each) for each in OPTIONS]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, *listed)
        id_ = a_worker(tx, driver.tenant, *listed)
    settings = Settings(
        database_url=driver.database.url,
        broker_url="memory://",
        tenant=driver.tenant,
        secret_key=SECRET_KEY,
        orchestrator_url="https://api.example",
        secrets=({"provider": "file", "path": str(tmp_path)},),
    )
    publisher: Any = SimpleNamespace(publish=driver.sent.extend)
    tasks: dict[str, Task[..., Any]] = {
        id: Task(fn, TaskSpec(id=id, code_hash=listed[0].code_hash, **options))
        for id, (fn, options) in OPTIONS.items()
    }
    slot = Slots(1).take(0, os.getpid())
    assert slot is not None
    queue = queue_names.service_queue(driver.tenant, "python")
    process = ChildProcess(f"{id_}#{os.getpid()}", (queue,), slot)
    deployment = Deployment(settings, driver.database, driver.values, publisher=publisher)
    calls = Calls(driver.database, driver.values, tasks, settings)
    yield Runner(deployment, calls, process)
    calls.boxes.close()


def ran(driver: RunDriver, runner: Runner, *steps: Mapping[str, Any], input: Any = None) -> UUID:
    document = {"id": "driven", "steps": [{**each, "retry": {"attempts": 1}} for each in steps]}
    driver.store_steps(*parse_spec(document).steps)
    run_id = driver.trigger(input=input)
    while messages := group_into_messages(driver.sent).messages:
        driver.sent.clear()
        for each in messages:
            runner.run(each.run_id, each.ordinals, each.attempt, each.part, each.joins, queue=each.queue)
    return run_id


def error_of(driver: RunDriver, run_id: UUID) -> Any:
    [row] = driver.rows("SELECT * FROM attempts WHERE run_id = :id", id=run_id)
    return row


def test_a_boxed_call_is_stored_as_any_other_and_the_next_steps_see_its_output(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    source = "outcome = [ctx.input['source'][:7], ctx.step_id, os.getpid()]"
    second = "outcome = [ctx.upstream['a'][1], 'a' in ctx.upstream, ctx.params['source'][:7]]"
    run_id = ran(
        isolated_driver,
        runner,
        {"id": "a", "task": "run"},
        {"id": "b", "task": "run", "params": {"source": second}},
        {"id": "c", "task": "waiting", "params": {"a": 7}},
        input={"source": source},
    )
    rows = isolated_driver.task_runs(run_id)
    outputs = [isolated_driver.values.load(row.output, row.output_path) for row in rows]
    assert outputs[0][:2] == ["outcome", "a"] and outputs[0][2] != os.getpid()
    assert outputs[1] == ["a", True, "outcome"]
    assert outputs[2] == 7
    assert isolated_driver.run(run_id).status == "completed"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("while True: pass", "SANDBOX_CPU_EXCEEDED"),
        ("kept = []\nwhile True: kept.append(bytearray(1 << 20))", "SANDBOX_MEMORY_EXCEEDED"),
        ("os._exit(0)", "SANDBOX_CRASHED"),
        ("os.kill(os.getpid(), 9)", "SANDBOX_CRASHED"),
        ("connection().sendall(b'garbage' * 10)", "SANDBOX_CRASHED"),
        ("connection().sendall(b'\\xff\\xff\\xff\\xffJ')", "SANDBOX_OUTPUT_TOO_LARGE"),
        ("os.kill(os.getppid(), 9)", "PermissionError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("outcome = float('nan')", "INVALID_RESULT"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_each_bad_end_is_a_final_row_and_the_worker_goes_on(
    isolated_driver: RunDriver, runner: Runner, source: str, code: str
) -> None:
    run_id = ran(isolated_driver, runner, {"id": "a", "task": "run"}, input={"source": source})
    assert isolated_driver.statuses(run_id) == {"a": "failed"}
    assert error_of(isolated_driver, run_id).error_code == code
    assert runner.calls.spoilt is None


def test_the_time_limit_of_a_step_ends_a_box(isolated_driver: RunDriver, runner: Runner) -> None:
    step = {"id": "a", "task": "run", "timeout": "300ms"}
    run_id = ran(isolated_driver, runner, step, input={"source": "import time; time.sleep(60)"})
    assert error_of(isolated_driver, run_id).error_code == "TIMEOUT"
    assert not runner.calls.boxes._boxes


def test_a_step_puts_a_task_without_a_sandbox_into_a_box(isolated_driver: RunDriver, runner: Runner) -> None:
    source = {"source": "outcome = os.stat(os.open('/etc/passwd', 0)).st_size"}
    free = ran(isolated_driver, runner, {"id": "a", "task": "open"}, input=source)
    boxed = ran(isolated_driver, runner, {"id": "a", "task": "open", "sandbox": {"cpu": 5}}, input=source)
    values = isolated_driver.values
    outputs = [
        values.load(row.output, row.output_path)
        for run_id in (free, boxed)
        for row in isolated_driver.task_runs(run_id)
    ]
    assert "allowed" in outputs[0]
    assert outputs[1]["refused"] == "PermissionError"


def test_a_step_cannot_widen_the_sandbox_of_its_task(isolated_driver: RunDriver, runner: Runner) -> None:
    step = {"id": "a", "task": "run", "sandbox": {"cpu": "1h", "memory": "2G"}}
    run_id = ran(isolated_driver, runner, step, input={"source": "while True: pass"})
    error = error_of(isolated_driver, run_id)
    assert (error.error_code, error.error["message"]) == (
        "SANDBOX_CPU_EXCEEDED",
        "the call took more than 0.5 s of processor time",
    )


def test_calls_that_share_a_process_are_not_put_into_a_box_by_a_step(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    step = {"id": "a", "task": "shared", "params": {"a": 1}, "sandbox": {}}
    run_id = ran(isolated_driver, runner, step)
    assert error_of(isolated_driver, run_id).error_code == "SANDBOX_REFUSED"


# --- what a call asks the worker for -----------------------------------------------------------------------


def output_of(driver: RunDriver, run_id: UUID) -> Any:
    [row] = driver.task_runs(run_id)
    return driver.values.load(row.output, row.output_path)


def test_a_boxed_call_gets_its_secrets_and_shows_none(isolated_driver: RunDriver, runner: Runner) -> None:
    source = "value = ctx.secret('DB'); outcome = [len(value), f'password={value}']"
    run_id = ran(isolated_driver, runner, {"id": "a", "task": "trusted"}, input={"source": source})
    assert output_of(isolated_driver, run_id) == [len(PASSWORD), "password=***"]
    assert isolated_driver.events(run_id, "task_run.secret_masked")
    refused = ran(
        isolated_driver, runner, {"id": "a", "task": "trusted"}, input={"source": "ctx.secret('OTHER')"}
    )
    assert error_of(isolated_driver, refused).error_code == "SANDBOX_REFUSED"


def test_a_boxed_call_reads_the_upload_that_its_run_names_and_no_other(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    driver = isolated_driver
    mine, other = (an_upload(driver.database, driver.tenant) for _ in range(2))
    for each in (mine, other):
        driver.values.backends.default.put(paths.upload_path(each, "a.csv"), b"1,2")
    read = "path = ctx.upload(ctx.input['file']); outcome = [path.name, path.read_text()]"
    named = ids.show(ids.UPLOAD, mine)
    run_id = ran(driver, runner, {"id": "a", "task": "run"}, input={"source": read, "file": named})
    assert output_of(driver, run_id) == ["a.csv", "1,2"]
    hidden = f"ctx.upload('tmp_' + {ids.show(ids.UPLOAD, other)[4:]!r})"
    run_id = ran(driver, runner, {"id": "a", "task": "run"}, input={"source": hidden})
    assert error_of(driver, run_id).error_code == "NOT_FOUND"
    step = {"id": "a", "task": "without_folder"}
    run_id = ran(driver, runner, step, input={"source": read, "file": named})
    assert error_of(driver, run_id).error_code == "SANDBOX_REFUSED"


def test_a_boxed_call_hands_its_work_on_and_is_reported_by_its_callback_url(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    driver = isolated_driver
    run_id = ran(driver, runner, {"id": "a", "task": "suspends"}, input={"kind": "callback"})
    assert driver.statuses(run_id) == {"a": "waiting"}
    [asset] = driver.task_runs(run_id)[0].assets.values()
    storage, path = driver.values.backends.locate(asset["path"])
    url = storage.get(path).decode()
    prefix = f"https://api.example{callback_tokens.PATH}"
    named = callback_tokens.read(SECRET_KEY, url.removeprefix(prefix))
    assert url.startswith(prefix) and named is not None
    kept = driver.values.keep(async_reports.of_callback({"output": 7}))
    driver.database.run(lambda tx: callbacks.receive(tx, named, kept))
    driver.database.run(lambda tx: look_at(tx, [(run_id, named.task_run_id)]))
    assert driver.statuses(run_id) == {"a": "completed"}
    polled = ran(driver, runner, {"id": "a", "task": "suspends"}, input={"kind": "poll"})
    [wait] = driver.rows("SELECT * FROM waits WHERE run_id = :id", id=polled)
    assert (wait.data["url"], wait.data["maxTries"]) == ("https://shop.example/jobs/1", 3)


@pytest.mark.parametrize(
    ("kind", "code"), [("memory", "MEMORY_LIMIT_EXCEEDED"), ("cpu", "CPU_LIMIT_EXCEEDED")]
)
def test_limits_without_a_sandbox_give_a_final_row(
    isolated_driver: RunDriver, runner: Runner, kind: str, code: str
) -> None:
    run_id = ran(isolated_driver, runner, {"id": "a", "task": "hog"}, input={"kind": kind})
    assert isolated_driver.statuses(run_id) == {"a": "failed"}
    assert error_of(isolated_driver, run_id).error_code == code
    assert runner.calls.spoilt is None
    assert len(isolated_driver.rows("SELECT 1 FROM dead_letters WHERE run_id = :id", id=run_id)) == 1
