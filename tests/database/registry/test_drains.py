"""Draining workers: they hear of it with their next heartbeat, and work is placed elsewhere at once."""

from __future__ import annotations

import pytest
from support.factories import a_task, a_worker, register

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading import PageRequest
from pipeweave.orchestrator.registry import drains, instances, loaded_tasks, worker_processes
from pipeweave.orchestrator.store.database import Transaction

TENANT = "drain-tests"
URL = "http://10.0.0.7:3001"


@pytest.fixture
def worker(tx: Transaction) -> str:
    register(tx, TENANT, "count")
    return a_worker(tx, TENANT, "count")


def drains_now(tx: Transaction, worker: str) -> bool:
    heard = worker_processes.beat(tx, worker)
    assert heard is not None
    return heard.drains


def taker(tx: Transaction) -> str | None:
    found = loaded_tasks.taker_sql(":tenant", ":task", "NULL::text", "NULL::text", "NULL::jsonb", "w.id")
    return tx.execute(f"SELECT {found}", {"tenant": TENANT, "task": "count"}).scalar_one()


def test_a_worker_hears_with_its_heartbeat_that_it_drains_and_that_it_is_resumed(
    tx: Transaction, worker: str
) -> None:
    assert not drains_now(tx, worker)
    drains.drain(tx, TENANT, worker, reason="a new kernel")
    assert drains_now(tx, worker)
    shown = reading.worker(tx, TENANT, worker)
    assert (shown["state"], shown["drainReason"]) == ("draining", "a new kernel")
    drains.resume(tx, TENANT, worker)
    assert not drains_now(tx, worker)
    assert reading.worker(tx, TENANT, worker)["state"] == "running"


def test_no_work_is_placed_at_a_worker_that_drains_even_before_it_hears(tx: Transaction, worker: str) -> None:
    assert taker(tx) == worker
    drains.drain(tx, TENANT, worker)
    assert taker(tx) is None
    other = a_worker(tx, TENANT, "count", name="other")
    assert taker(tx) == other
    drains.resume(tx, TENANT, worker)
    worker_processes.stop(tx, other)
    assert taker(tx) == worker


def test_a_worker_that_stops_stays_so_when_it_is_resumed(tx: Transaction, worker: str) -> None:
    drains.drain(tx, TENANT, worker)
    worker_processes.beat(tx, worker, stops=True)
    drains.resume(tx, TENANT, worker)
    worker_processes.beat(tx, worker, stops=True)
    assert taker(tx) is None


def test_a_drain_survives_a_worker_that_was_lost_by_mistake(tx: Transaction, worker: str) -> None:
    drains.drain(tx, TENANT, worker)
    worker_processes.stop(tx, worker)
    assert worker_processes.beat(tx, worker) is None
    start = worker_processes.WorkerStart("python", "w@host", "host", 2, 1)
    worker_processes.register(tx, TENANT, start, worker_id=worker)
    assert drains_now(tx, worker)


def test_what_ended_or_is_not_there_or_is_anothers_cannot_be_drained(tx: Transaction, worker: str) -> None:
    with pytest.raises(Conflict, match="not draining"):
        drains.resume(tx, TENANT, worker)
    with pytest.raises(NotFound):
        drains.drain(tx, "another-tenant", worker)
    with pytest.raises(NotFound):
        drains.drain(tx, TENANT, "http:0123456789abcdef")
    worker_processes.stop(tx, worker)
    with pytest.raises(Conflict, match="ended"):
        drains.drain(tx, TENANT, worker)


def test_an_instance_that_drains_gets_no_dispatch_also_when_it_registers_anew(tx: Transaction) -> None:
    register(tx, TENANT, a_task("send"), id="mailer", kind="http", base_url=URL)
    [instance] = reading.workers(tx, TENANT, PageRequest())["items"]
    assert (instance["kind"], instance["name"], instance["state"]) == ("http", URL, "running")
    drains.drain(tx, TENANT, instance["id"])
    register(tx, TENANT, a_task("send"), id="mailer", version="2", kind="http", base_url=URL)
    [found] = instances.of_service(tx, TENANT, "mailer")
    assert (found.drains, found.set_aside_at) == (True, None)
    assert reading.worker(tx, TENANT, instance["id"])["state"] == "draining"
    assert reading.worker(tx, TENANT, instance["id"])["tasks"] == ["send"]
    drains.resume(tx, TENANT, instance["id"])
    assert not instances.of_service(tx, TENANT, "mailer")[0].drains
