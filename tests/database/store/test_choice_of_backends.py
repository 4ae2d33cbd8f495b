"""Each verb that stores a large value writes it to the backend of its tenant and pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from support.memory_storage import MemoryStorage
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.authoring import Context, Task, TaskSpec
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import DeadLetter
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, backend_of, plain_path
from pipeweave.workers.consumer.calls import Calls

LARGE = "x" * INLINE_BYTES


@pytest.fixture
def driver(database_url: str) -> Iterator[RunDriver]:
    """A tenant with a backend of its own, and another one for its pipeline `align`."""
    tenant = f"chosen-{uuid4().hex}"
    entries: list[dict[str, Any]] = [
        {"id": "main"},
        {"id": "own", "tenants": [tenant]},
        {"id": "genomes", "pipelines": ["align"]},
    ]
    opened = {each["id"]: MemoryStorage() for each in entries}
    database = Database(database_url)
    yield RunDriver(database, tenant, values=Values(Backends(entries, opened=opened)))
    database.dispose()


def places(driver: RunDriver, table: str, column: str) -> set[str | None]:
    """The backends that rows of the tenant refer to."""
    with driver.database.transaction() as tx:
        rows = tx.execute(
            f"SELECT {column} FROM {table} WHERE tenant_id = :tenant", {"tenant": driver.tenant}
        )
        return {backend_of(path) for path in rows.scalars() if path is not None}


@pytest.mark.parametrize(("pipeline", "backend"), [("align", "genomes"), ("other", "own")])
def test_a_run_keeps_its_input_where_its_pipeline_belongs(
    driver: RunDriver, pipeline: str, backend: str
) -> None:
    driver.store({"a": []}, id=pipeline)
    run_id = driver.trigger(pipeline, LARGE)
    assert places(driver, "runs", "input_path") == {backend}
    row = driver.run(run_id)
    stored = driver.values.backends.get(backend)
    assert [each.path for each in stored.list()] == [plain_path(row.input_path)]
    assert driver.values.load(None, row.input_path) == LARGE


def test_a_standalone_task_keeps_its_input_where_its_tenant_belongs(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, driver.values, driver.tenant, [QueueRequest("noop", LARGE)])
    assert places(driver, "runs", "input_path") == {"own"}


def test_a_result_goes_where_its_pipeline_belongs(driver: RunDriver) -> None:
    def big(ctx: Context) -> str:
        return LARGE

    tasks: dict[str, Task[..., Any]] = {"noop": Task(big, TaskSpec(id="noop", code_hash="0" * 64))}
    driver.store({"a": []}, id="align")
    run_id = driver.trigger("align")
    with driver.database.transaction() as tx:
        header = run_headers.load(tx, run_id)
    assert header is not None
    step: tuple[Any, ...] = (ids.task_run_id(run_id, 1), run_id, "a", "noop", "task", TaskStatus.RUNNING, 1)
    task_run = TaskRun(*step, None, None, None, 100, "q", False, 1, "0" * 64)
    outcome = Calls(
        driver.database, driver.values, tasks, Settings(database_url="", broker_url="memory://")
    ).call(header, task_run, 60.0)
    assert isinstance(outcome, Completion)
    assert backend_of(outcome.output.path or "") == "genomes"


def test_the_input_of_a_retry_is_kept_where_the_tenant_belongs_now(driver: RunDriver) -> None:
    old = driver.values.keep(LARGE, "main").path
    letter = DeadLetter(uuid4(), driver.tenant, uuid4(), uuid4(), "noop", True, None, old)
    [(value, kept)] = dead_letters.stored_inputs(driver.values, [letter]).values()
    assert (value, backend_of(kept.path or "")) == (LARGE, "own")


def test_a_small_value_touches_no_storage(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in driver.values.backends.ids:
        monkeypatch.setattr(driver.values.backends.get(each), "is_away", True)
    driver.store({"a": []}, id="align")
    driver.trigger("align", os.urandom(100).hex())
    assert places(driver, "runs", "input_path") == set()
