"""Which live worker processes have which tasks in which code versions."""

from __future__ import annotations

from typing import Any

from support.factories import a_task, a_worker, all_pages, register

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest

TENANT = "deploy-tests"


def found(tx: Transaction) -> list[tuple[Any, ...]]:
    items = reading.deploys(tx, TENANT, PageRequest())["items"]
    return [(each["taskId"], each["codeVersion"], each["isNewest"], each["workerCount"]) for each in items]


def test_old_and_new_code_are_told_apart_with_their_workers(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report")
    old = a_worker(tx, TENANT, "count", "report", name="old")
    register(tx, TENANT, a_task("count", "second"))
    new = [a_worker(tx, TENANT, a_task("count", "second"), name=f"new{each}") for each in range(2)]
    assert sorted(found(tx)) == [("count", 1, False, 1), ("count", 2, True, 2), ("report", 1, True, 1)]
    newest = next(
        each for each in reading.deploys(tx, TENANT, PageRequest())["items"] if each["codeVersion"] == 2
    )
    assert set(newest["workers"]) == set(new)
    worker_processes.stop(tx, old)
    assert found(tx) == [("count", 2, True, 2)]


def test_code_that_came_back_has_its_newest_number(tx: Transaction) -> None:
    for code in ("first", "second", "first"):
        register(tx, TENANT, a_task("count", code))
    a_worker(tx, TENANT, "count")
    assert found(tx) == [("count", 3, True, 1)]


def test_stopping_workers_and_those_that_do_not_serve_the_queue_are_counted(tx: Transaction) -> None:
    register(tx, TENANT, "count")
    worker = a_worker(tx, TENANT, "count")
    worker_processes.beat(tx, worker, stops=True)
    tx.execute("UPDATE worker_tasks SET is_served = false WHERE worker_id = :id", {"id": worker})
    [item] = reading.deploys(tx, TENANT, PageRequest())["items"]
    assert (item["stopping"], item["idle"]) == (1, 1)


def test_a_long_list_comes_in_pages_and_only_of_the_tenant(tx: Transaction) -> None:
    tasks = [f"task-{number}" for number in range(5)]
    register(tx, TENANT, *tasks)
    a_worker(tx, TENANT, *tasks)
    register(tx, "deploy-others", "theirs")
    a_worker(tx, "deploy-others", "theirs")
    items = all_pages(lambda page: reading.deploys(tx, TENANT, page), 2)
    assert [each["taskId"] for each in items] == tasks


def test_a_task_shows_its_queue_and_how_many_live_workers_have_it(tx: Transaction) -> None:
    register(tx, TENANT, a_task("render", queue="gpu"), "count")
    shown = reading.task(tx, TENANT, "render")
    assert (shown["queue"], shown["workerCount"], shown["lastSeen"]) == ("gpu", 0, None)
    worker = a_worker(tx, TENANT, "count")
    assert reading.task(tx, TENANT, "count")["workerCount"] == 1
    worker_processes.stop(tx, worker)
    shown = reading.task(tx, TENANT, "count")
    assert (shown["queue"], shown["workerCount"]) == ("default", 0)
    assert shown["lastSeen"] is not None
