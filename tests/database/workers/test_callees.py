"""Steps that are called in different ways, in one child process: each by its callee, in one message."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver

from pipeweave.authoring.task import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain import UNCOUNTED, queue_names
from pipeweave.orchestrator.messaging.batching import group_into_messages
from pipeweave.settings import Settings
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner

Called = list[str]


@pytest.fixture
def called() -> Called:
    """The tasks that were called, in the order of the calls."""
    return []


@pytest.fixture
def stored() -> list[set[str]]:
    """The steps that were stored as completed while each call of the `async def` function ran."""
    return []


@pytest.fixture
def runner(isolated_driver: RunDriver, called: Called, stored: list[set[str]]) -> Runner:
    """A worker with a function and an `async def` function, in the test's own thread."""
    driver = isolated_driver

    def plain() -> None:
        called.append("noop")

    async def waits() -> None:
        called.append("single")
        rows = driver.rows(
            "SELECT step_id FROM task_runs WHERE tenant_id = :tenant AND status = 'completed'",
            tenant=driver.tenant,
        )
        stored.append({row.step_id for row in rows})

    functions: dict[str, Callable[[], Any]] = {"noop": plain, "single": waits}
    listed = [a_task(each) for each in functions]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, *listed)
        id_ = a_worker(tx, driver.tenant, *listed)
    settings = Settings(database_url=driver.database.url, broker_url="memory://", tenant=driver.tenant)
    publisher: Any = SimpleNamespace(publish=driver.sent.extend)
    tasks = {id: Task(fn, TaskSpec(id=id, code_hash=listed[0].code_hash)) for id, fn in functions.items()}
    slots = Slots(1)
    slot = slots.take(0, os.getpid())
    assert slot is not None
    process = ChildProcess(
        f"{id_}#{os.getpid()}", (queue_names.service_queue(driver.tenant, "python"),), slot
    )
    deployment = Deployment(settings, driver.database, driver.values, publisher=publisher)
    return Runner(deployment, Calls(driver.database, driver.values, tasks, settings), process)


def work(driver: RunDriver, runner: Runner) -> int:
    """Work off all messages. Returns how many there were."""
    number = 0
    while messages := group_into_messages(driver.sent).messages:
        driver.sent.clear()
        for each in messages:
            number += 1
            runner.run(each.run_id, each.ordinals, each.attempt, each.part, each.joins, queue=each.queue)
    return number


def test_a_chain_of_functions_of_both_kinds_is_one_message(
    isolated_driver: RunDriver, runner: Runner, called: Called
) -> None:
    needs = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
    run_id = isolated_driver.begin(needs, tasks={"b": "single", "d": "single"})
    assert work(isolated_driver, runner) == 1
    assert called == ["noop", "single", "noop", "single"]
    assert isolated_driver.run(run_id).status == "completed"


def test_outcomes_of_functions_are_stored_before_an_async_function_begins(
    isolated_driver: RunDriver, runner: Runner, called: Called, stored: list[set[str]]
) -> None:
    """It may take long: until it has ended, nothing would go on that is not async."""
    isolated_driver.begin({"a": []})
    work(isolated_driver, runner)  # it knows from now on that the function is quick: two of them are one turn
    called.clear()
    needs = {"a1": [], "a2": [], "b": ["a1"], "c": ["a2"], "d": ["b"]}
    run_id = isolated_driver.begin(needs, tasks={"c": "single"})
    runner.run(run_id, [1, 2], 1, UNCOUNTED, ())
    # Beside a call that may take long, `d` would have needed a message.
    assert called == ["noop", "noop", "noop", "single", "noop"]
    assert stored == [{"a", "a1", "a2", "b"}]
    assert isolated_driver.run(run_id).status == "completed"
