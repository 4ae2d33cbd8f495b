"""A tick beside a store that does not answer: only what needs the store waits, and nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest
from support.memory_storage import MemoryStorage, SilentStorage
from support.run_driver import RunDriver
from support.servers import wait_until
from support.stored_values import values_in

import pipeweave
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.recovery import chores, late_chores, tick
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.store import leases, values
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES

LARGE = {"text": "x" * INLINE_BYTES}


@pytest.fixture
def store() -> Iterator[SilentStorage]:
    made = SilentStorage()
    yield made
    made.answers.set()


@pytest.fixture
def hanging(deployment: Deployment, store: SilentStorage, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """The deployment over that store, whose ticks wait for nothing that may wait."""
    monkeypatch.setattr(late_chores, "WAIT_S", 0.0)
    settings = deployment.settings
    return Deployment(settings, deployment.database, values_in(store), deployment.publisher)


@pytest.fixture
def other(driver: RunDriver) -> RunDriver:
    """Another tenant."""
    return RunDriver(driver.database, "other")


def enqueue(database: Database, *runs: tuple[str, Any]) -> None:
    """Enqueue runs of the pipeline `driven`, each of a tenant and with an input."""
    connection = psycopg2.connect(database.url)
    try:
        for tenant, input in runs:
            pipeweave.enqueue(connection, "driven", input, tenant=tenant)
        connection.commit()
    finally:
        connection.close()


def runs_of(driver: RunDriver) -> int:
    [row] = driver.rows("SELECT count(*) AS runs FROM runs WHERE tenant_id = :t", t=driver.tenant)
    return int(row.runs)


def test_enqueued_runs_of_others_start_while_a_large_input_waits_for_the_store(
    driver: RunDriver, other: RunDriver, hanging: Deployment, store: SilentStorage
) -> None:
    for each in (driver, other):
        each.store({"a": []})
    enqueue(driver.database, (driver.tenant, LARGE), (driver.tenant, {"n": 1}), (other.tenant, {"n": 2}))
    first = tick.run_once(hanging)
    assert (first.enqueued_started, first.enqueued_large_started, first.failed_chores) == (2, 0, ())
    assert store.asked.acquire(timeout=60)
    assert (runs_of(driver), runs_of(other)) == (1, 1)
    # Neither the next tick nor another process begins it a second time, and the tick keeps its lease.
    assert tick.run_once(hanging).enqueued_large_started == 0
    assert leases.take(driver.database, leases.ENQUEUED_LARGE, tick.LEASE) is None
    store.answers.set()
    wait_until(lambda: runs_of(driver) == 2, what="the large run does not start")
    wait_until(lambda: tick.run_once(hanging).enqueued_large_started == 1, what="nobody counts it")
    assert (runs_of(driver), driver.rows("SELECT id FROM enqueued_runs")) == (2, [])


def test_a_large_run_that_the_store_refuses_is_tried_again_and_starts_once(
    driver: RunDriver, deployment: Deployment
) -> None:
    away = MemoryStorage(is_away=True)
    over = Deployment(deployment.settings, deployment.database, values_in(away), deployment.publisher)
    driver.store({"a": []})
    enqueue(driver.database, (driver.tenant, LARGE))
    for _ in range(3):
        assert tick.run_once(over).failed_chores == ()
        driver.rows("UPDATE enqueued_runs SET due_at = now() RETURNING id")
    [row] = driver.rows("SELECT tries, error_code, settled_at FROM enqueued_runs")
    assert (row.tries, row.error_code, row.settled_at) == (3, "UNAVAILABLE", None)
    away.is_away = False
    assert [tick.run_once(over).enqueued_large_started for _ in range(2)] == [1, 0]
    assert runs_of(driver) == 1


def test_a_due_time_whose_input_the_store_does_not_take_fires_once_when_it_is_back(
    driver: RunDriver, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An input of a schedule becomes a large one by the defaults of its pipeline.
    monkeypatch.setattr(values, "INLINE_BYTES", 10)
    away = MemoryStorage(is_away=True)
    over = Deployment(deployment.settings, deployment.database, values_in(away), deployment.publisher)
    driver.store({"a": []})
    spec = storing.ScheduleSpec("driven", every_ms=3_600_000, input={"text": "longer than that"})
    driver.database.run(lambda tx: storing.put(tx, tenant=driver.tenant, schedule_id="hourly", spec=spec))
    driver.rows("UPDATE schedules SET next_fire_at = now() - interval '1 s' RETURNING id")
    assert [tick.run_once(over).schedules_fired for _ in range(2)] == [0, 0]
    away.is_away = False
    assert [tick.run_once(over).schedules_fired for _ in range(2)] == [1, 0]
    assert runs_of(driver) == 1


def test_what_a_chore_beside_the_tick_raises_is_told_by_the_next_tick(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_chores, "WAIT_S", 0.0)
    goes_on = threading.Event()

    def fail(_: Deployment) -> int:
        assert goes_on.wait(60)
        raise ZeroDivisionError

    odd = (chores.Chore("odd", fail, None, may_wait=True),)
    assert tick.run_once(deployment, odd).failed_chores == ()
    assert late_chores.is_under_way(deployment.database, "odd")
    goes_on.set()
    wait_until(lambda: tick.run_once(deployment, odd).failed_chores == ("odd",), what="nobody tells")
