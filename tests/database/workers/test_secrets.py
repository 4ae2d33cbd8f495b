"""A worker resolves secrets at the call, and no row holds what they came to."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver
from support.stub_http_server import Served, serving

from pipeweave import Context, Suspend, TaskError
from pipeweave.adapters import HttpAdapter
from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.messaging.batching import group_into_messages
from pipeweave.settings import Settings
from pipeweave.spec import StepSpec
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner

VALUE = "hunter2-hunter2"

seen: list[Any] = []


def takes(password: str) -> str:
    seen.append(password)
    return f"with {password}"


async def takes_async(ctx: Context, password: str) -> Any:
    ctx.progress(50, f"with {password}")
    return {"basic": base64.b64encode(f"shop:{ctx.secret('DB')}".encode()).decode(), password: 1}


def asks(ctx: Context) -> None:
    ctx.secret("DB")


def adds(ctx: Context) -> None:
    ctx.add_asset("account.json", {"password": ctx.secret("DB")})
    ctx.add_asset("account.txt", f"password={ctx.secret('DB')}")


def raises(ctx: Context, password: str) -> None:
    ctx.progress(10, f"login with {password}")
    raise TaskError(
        f"no login with {password}", code=f"E_{password}", details={"tried": [password]}, retryable=False
    )


def polls(ctx: Context) -> Suspend:
    return Suspend.poll(f"https://shop.example/jobs/1?token={ctx.secret('DB')}")


def keyed(password: str) -> int:
    seen.append(password)
    return len(seen)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (takes, takes_async, asks, adds, raises, polls, keyed)},
    "http.request": HttpAdapter.request.fn,
}


@pytest.fixture
def folder(tmp_path: Path, isolated_driver: RunDriver) -> Path:
    """The secrets of the tenant."""
    folder = tmp_path / "secrets" / isolated_driver.tenant
    folder.mkdir(parents=True)
    (folder / "DB").write_text(f"{VALUE}\n")
    (tmp_path / "bound").mkdir()
    (tmp_path / "bound" / "SHOP").write_text(VALUE)
    return folder


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture
def runner(isolated_driver: RunDriver, folder: Path) -> Runner:
    driver = isolated_driver
    seen.clear()
    listed = [a_task(each) for each in FUNCTIONS]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, *listed)
        id_ = a_worker(tx, driver.tenant, *listed)
    settings = Settings(
        database_url=driver.database.url,
        broker_url="memory://",
        tenant=driver.tenant,
        secrets=(
            {"provider": "file", "path": str(folder.parent)},
            {
                "provider": "file",
                "path": str(folder.parent.parent / "bound"),
                "tenants": ["*"],
                "hosts": ["127.0.0.1"],
            },
        ),
        dispatch_networks=("loopback",),
    )
    publisher: Any = SimpleNamespace(publish=driver.sent.extend)

    def spec(id: str) -> TaskSpec:
        key = (lambda given: str(given["password"])) if id == "keyed" else None
        return TaskSpec(id=id, code_hash=listed[0].code_hash, idempotency_key=key)

    tasks = {id: Task(fn, spec(id)) for id, fn in FUNCTIONS.items()}
    slots = Slots(1)
    slot = slots.take(0, os.getpid())
    assert slot is not None
    queues = (queue_names.service_queue(driver.tenant, "python"),)
    deployment = Deployment(settings, driver.database, driver.values, publisher=publisher)
    calls = Calls(driver.database, driver.values, tasks, settings)
    return Runner(deployment, calls, ChildProcess(f"{id_}#{os.getpid()}", queues, slot))


def step(task: str, id: str = "a", **more: Any) -> StepSpec:
    return StepSpec(id=id, task=task, **more)


WITH_PASSWORD: dict[str, Any] = {"params": {"password": "${secret.DB}"}}


def run_of(driver: RunDriver, runner: Runner, *steps: StepSpec) -> UUID:
    driver.store_steps(*steps)
    run_id = driver.trigger()
    while messages := group_into_messages(driver.sent).messages:
        driver.sent.clear()
        for each in messages:
            runner.run(each.run_id, each.ordinals, each.attempt, each.part, each.joins, queue=each.queue)
    return run_id


def everything(driver: RunDriver) -> str:
    """All rows of all tables, as text."""
    tables = driver.rows(
        "SELECT quote_ident(c.relname) AS name FROM pg_class AS c JOIN pg_namespace AS n "
        "ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = current_schema()"
    )
    return "\n".join(
        str(row.text)
        for each in tables
        for row in driver.rows(f"SELECT CAST(to_jsonb(t) AS text) AS text FROM {each.name} AS t")
    )


def places(driver: RunDriver, run_id: UUID) -> list[Any]:
    return [each.data["places"] for each in driver.events(run_id, "task_run.secret_masked")]


def test_a_param_has_the_value_at_the_call_and_rows_have_the_reference(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    run_id = run_of(isolated_driver, runner, step("takes", **WITH_PASSWORD))
    assert seen == [VALUE]
    [task_run] = isolated_driver.task_runs(run_id)
    assert (task_run.status, task_run.output) == ("completed", "with ***")
    assert places(isolated_driver, run_id) == [["output"]]
    rows = everything(isolated_driver)
    assert "${secret.DB}" in rows and VALUE not in rows


def test_an_async_call_shows_nothing_in_its_output_and_progress(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    run_id = run_of(isolated_driver, runner, step("takes_async", **WITH_PASSWORD))
    [task_run] = isolated_driver.task_runs(run_id)
    assert task_run.status == "completed"
    assert task_run.output.keys() == {"basic", "***"} and "***" in task_run.output["basic"]
    rows = everything(isolated_driver)
    assert VALUE not in rows and base64.b64encode(VALUE.encode()).decode() not in rows


def test_an_error_shows_nothing_in_message_code_traceback_and_details(
    isolated_driver: RunDriver, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = run_of(isolated_driver, runner, step("raises", **WITH_PASSWORD))
    [task_run] = isolated_driver.task_runs(run_id)
    assert (task_run.status, task_run.error_code) == ("failed", "E_***")
    assert task_run.error["message"] == "no login with ***"
    assert task_run.error["details"] == {"tried": ["***"]}
    assert VALUE not in everything(isolated_driver)


def test_a_result_that_holds_none_has_no_event(isolated_driver: RunDriver, runner: Runner) -> None:
    run_id = run_of(isolated_driver, runner, step("asks"))
    assert isolated_driver.statuses(run_id) == {"a": "completed"}
    assert places(isolated_driver, run_id) == []


def test_assets_are_stored_without_it(isolated_driver: RunDriver, runner: Runner) -> None:
    run_id = run_of(isolated_driver, runner, step("adds"))
    [task_run] = isolated_driver.task_runs(run_id)
    backends = runner.calls.values.backends
    located = {key: backends.locate(each["path"]) for key, each in task_run.assets.items()}
    stored = {key: storage.get(path) for key, (storage, path) in located.items()}
    assert orjson.loads(stored["account.json"]) == {"password": "***"}
    assert stored["account.txt"] == b"password=***"
    assert places(isolated_driver, run_id) == [["assets.account.json", "assets.account.txt"]]


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", "completed"), ("localhost", "failed")])
def test_a_secret_for_a_host_is_sent_there_alone(
    isolated_driver: RunDriver, runner: Runner, served: Served, host: str, status: str
) -> None:
    served.put("GET /a", (200, {"token": VALUE}, {"content-type": "application/json"}))
    url = f"http://{host}:{served.url.rpartition(':')[2]}/a"
    params = {"url": url, "headers": {"Authorization": "Bearer ${secret.SHOP}"}}
    run_id = run_of(isolated_driver, runner, step("http.request", params=params))
    [task_run] = isolated_driver.task_runs(run_id)
    assert task_run.status == status
    if status == "completed":
        assert served.asked[0][1]["authorization"] == f"Bearer {VALUE}"
        assert task_run.output["body"] == {"token": "***"}
    else:
        assert (task_run.error_code, served.asked) == ("SECRET_DENIED", [])
    assert VALUE not in everything(isolated_driver)


def test_the_url_of_a_poll_is_stored_without_it(isolated_driver: RunDriver, runner: Runner) -> None:
    run_id = run_of(isolated_driver, runner, step("polls"))
    assert isolated_driver.statuses(run_id) == {"a": "waiting"}
    assert places(isolated_driver, run_id) == [["poll"]]
    assert VALUE not in everything(isolated_driver)


def test_a_key_is_made_of_the_reference_so_that_it_holds_when_the_secret_is_renewed(
    isolated_driver: RunDriver, runner: Runner, folder: Path
) -> None:
    run_of(isolated_driver, runner, step("keyed", **WITH_PASSWORD))
    (folder / "DB").write_text("another-value")
    run_id = run_of(isolated_driver, runner, step("keyed", **WITH_PASSWORD))
    assert len(seen) == 1
    [task_run] = isolated_driver.task_runs(run_id)
    assert (task_run.status, task_run.idempotency_key) == ("completed", "${secret.DB}")


def test_a_missing_secret_is_tried_again_and_a_refused_one_is_not(
    isolated_driver: RunDriver, runner: Runner, folder: Path
) -> None:
    (folder / "DB").rename(folder / "elsewhere")
    run_id = run_of(isolated_driver, runner, step("takes", **WITH_PASSWORD))
    [retrying] = isolated_driver.events(run_id, "task_run.retrying")
    assert retrying.data["errorCode"] == "SECRET_NOT_FOUND"
    (folder / "DB").write_bytes(b"\xff\xfe\xfd binary")
    run_id = run_of(isolated_driver, runner, step("takes", **WITH_PASSWORD))
    [failed] = isolated_driver.events(run_id, "task_run.failed")
    assert failed.data["errorCode"] == "SECRET_DENIED"
    assert seen == []


def test_an_attempt_that_finds_its_provider_away_does_not_count(
    isolated_driver: RunDriver, runner: Runner, folder: Path
) -> None:
    (folder.parent / "loop").symlink_to("loop")
    folder.rename(folder.parent / "kept")
    folder.symlink_to("loop")
    run_id = run_of(isolated_driver, runner, step("takes", **WITH_PASSWORD))
    [task_run] = isolated_driver.task_runs(run_id)
    assert (task_run.status, task_run.attempt) == ("pending", 2)
    [retrying] = isolated_driver.events(run_id, "task_run.retrying")
    assert retrying.data["errorCode"] == "UNAVAILABLE"


def test_the_history_of_a_run_with_a_masked_result_is_rebuilt(
    isolated_driver: RunDriver, runner: Runner
) -> None:
    run_id = run_of(isolated_driver, runner, step("takes", **WITH_PASSWORD))
    assert places(isolated_driver, run_id)
    with isolated_driver.database.transaction() as tx:
        assert verify.run(tx, run_id) == []
