"""Worker processes: alive while they say so, missed when they stop."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.factories import a_service, register

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.process.liveness import WorkerLiveness
from pipeweave.workers.process.memory_watch import MemoryWatch

TENANT = "worker-tests"


@pytest.fixture
def now(tx: Transaction) -> datetime:
    """The transaction's time by the database's clock, with a registered service."""
    register(tx, TENANT, "a")
    found: datetime = tx.execute("SELECT now()").scalar_one()
    return found


def start(tx: Transaction, name: str = "w@host", *, now: datetime | None = None) -> str:
    wish = worker_processes.WorkerStart("python", name, "host", concurrency=2, task_count=1)
    return worker_processes.register(tx, TENANT, wish, now=now)


def status(tx: Transaction) -> str:
    return str(reading.service(tx, TENANT, "python")["status"])


def test_every_start_of_a_worker_has_an_id_of_its_own(tx: Transaction, now: datetime) -> None:
    assert start(tx) != start(tx)


def test_a_worker_lives_until_it_was_silent_for_too_long(tx: Transaction, now: datetime) -> None:
    late = now + worker_processes.LOST_AFTER
    too_late = late + timedelta(milliseconds=1)
    later = late + worker_processes.LOST_AFTER
    times = (late, too_late, later)
    others = [worker_processes.count_alive(tx, now=each) for each in times]

    def is_alive() -> list[int]:
        alive = [worker_processes.count_alive(tx, now=each) for each in times]
        return [every - other for every, other in zip(alive, others, strict=True)]

    worker = start(tx, now=now)
    assert is_alive() == [1, 0, 0]
    assert worker_processes.beat(tx, worker, now=late)
    assert is_alive() == [1, 1, 1]


def test_only_the_commit_of_a_heartbeat_does_not_wait_for_the_disk(database: Database) -> None:
    """Nor for a standby, whose absence must not make workers look silent."""

    def waits(tx: Transaction) -> str:
        return str(tx.execute("SELECT current_setting('synchronous_commit')").scalar_one())

    tenant = "quick-beats"
    with database.transaction() as tx:
        register(tx, tenant, "a")
        wish = worker_processes.WorkerStart("python", "w@host", "host", concurrency=2, task_count=1)
        worker = worker_processes.register(tx, tenant, wish)
    with database.statements() as tx:
        tx.execute("SET synchronous_commit = on")
        assert worker_processes.beat(tx, worker)
        assert waits(tx) == "on"
        tx.execute("RESET synchronous_commit")
    with database.transaction() as tx:
        tx.execute("SET LOCAL synchronous_commit = on")
        assert worker_processes.beat(tx, worker)
        assert waits(tx) == "off"
        worker_processes.stop(tx, worker)


def test_a_worker_that_stopped_is_not_alive_and_does_not_beat(tx: Transaction, now: datetime) -> None:
    worker = start(tx)
    alive = worker_processes.count_alive(tx)
    worker_processes.stop(tx, worker)
    assert worker_processes.count_alive(tx) == alive - 1
    assert not worker_processes.beat(tx, worker)


def test_an_unknown_worker_is_told_to_register(tx: Transaction) -> None:
    assert not worker_processes.beat(tx, "nobody")
    worker_processes.stop(tx, "nobody")


def test_a_silent_worker_is_lost_once_and_told_so(tx: Transaction, now: datetime) -> None:
    silent, loud = start(tx, now=now), start(tx, now=now)
    later = now + worker_processes.LOST_AFTER + timedelta(seconds=1)
    assert (
        worker_processes.mark_lost(tx, now=now + worker_processes.SUSPECT_AFTER + timedelta(milliseconds=1))
        == []
    )
    worker_processes.beat(tx, loud, now=later)
    mine = [each for each in worker_processes.mark_lost(tx, now=later) if each.tenant == TENANT]
    assert mine == [worker_processes.LostWorker(silent, TENANT, "python")]
    assert [each for each in worker_processes.mark_lost(tx, now=later) if each.tenant == TENANT] == []
    assert not worker_processes.beat(tx, silent, now=later)


def test_a_dispatcher_which_has_no_service_is_lost_like_any_worker(tx: Transaction, now: datetime) -> None:
    wish = worker_processes.WorkerStart("dispatcher", "d@host", "host", concurrency=2, task_count=0)
    dispatcher = worker_processes.register(tx, TENANT, wish, now=now)
    late = now + worker_processes.LOST_AFTER + timedelta(seconds=1)
    worker_processes.mark_lost(tx, now=late)
    lost = worker_processes.mark_lost(tx, now=late + worker_processes.CONFIRM_AFTER)
    assert dispatcher in [each.id for each in lost]


def test_a_service_is_active_while_one_of_its_workers_lives(tx: Transaction, now: datetime) -> None:
    one, two = start(tx), start(tx)
    worker_processes.stop(tx, one)
    assert status(tx) == "active"
    worker_processes.stop(tx, two)
    assert status(tx) == "inactive"
    start(tx)
    assert status(tx) == "active"


def test_a_service_that_lost_its_last_worker_is_disconnected(tx: Transaction, now: datetime) -> None:
    start(tx, now=now)
    for later in (timedelta(seconds=2), timedelta(minutes=1)):
        worker_processes.mark_lost(tx, now=now + later)
    assert status(tx) == "disconnected"


def test_no_worker_is_lost_at_the_first_look_after_an_outage(tx: Transaction, now: datetime) -> None:
    """PostgreSQL or the tick stood still for an hour: every worker looks silent."""
    worker, dead = start(tx, now=now), start(tx, now=now)
    back = now + timedelta(hours=1)
    mine = {worker, dead}
    assert mine.isdisjoint(each.id for each in worker_processes.mark_lost(tx, now=back))
    worker_processes.beat(tx, worker, now=back + timedelta(seconds=1))
    lost = worker_processes.mark_lost(tx, now=back + worker_processes.CONFIRM_AFTER)
    assert mine.intersection(each.id for each in lost) == {dead}


def test_a_worker_that_was_taken_for_lost_comes_back_under_its_own_id(tx: Transaction, now: datetime) -> None:
    worker = start(tx, now=now)
    for later in (timedelta(seconds=2), timedelta(minutes=1)):
        worker_processes.mark_lost(tx, now=now + later)
    wish = worker_processes.WorkerStart("python", "w@host", "host", concurrency=2, task_count=1)
    assert worker_processes.register(tx, TENANT, wish, worker_id=worker) == worker
    assert worker_processes.beat(tx, worker)
    assert status(tx) == "active"


def test_of_two_workers_that_stop_at_once_the_later_one_leaves_the_service(database: Database) -> None:
    with database.transaction() as tx:
        service_registration.register(tx, TENANT, a_service("a"))
        ids = [start(tx), start(tx)]
    barrier = threading.Barrier(2)

    def stop(worker: str) -> None:
        with Database(database.url, pool_size=0).transaction() as tx:
            barrier.wait(60)
            worker_processes.stop(tx, worker)

    threads = [threading.Thread(target=stop, args=(each,)) for each in ids]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    with database.transaction() as tx:
        assert status(tx) == "inactive"


def test_a_worker_that_stops_waits_for_another_that_is_stopping(database: Database) -> None:
    """Otherwise each of them would take the other one for alive, and the service would stay active."""
    with database.transaction() as tx:
        service_registration.register(tx, TENANT, a_service("a"))
        first, last = start(tx), start(tx)

    def stop() -> None:
        with database.transaction() as tx:
            worker_processes.stop(tx, last)

    with database.transaction() as tx:
        worker_processes.stop(tx, first)
        beside = BackgroundCall(stop)
        beside.__enter__()
        wait_for_lock(database)
        assert status(tx) == "active"
    assert beside.result is None
    with database.transaction() as tx:
        assert status(tx) == "inactive"


def test_a_worker_that_was_taken_for_lost_says_with_its_next_beat_that_it_lives(database: Database) -> None:
    with database.transaction() as tx:
        service_registration.register(tx, TENANT, a_service("a"))
        wish = worker_processes.WorkerStart("python", "w@host", "host", concurrency=2, task_count=1)
        worker = worker_processes.register(tx, TENANT, wish)
        worker_processes.stop(tx, worker)
    how: dict[str, Any] = {
        "grace_s": 1,
        "is_cut_short": lambda: False,
        "log_every_s": 60,
        "max_retry_delay_ms": None,
    }
    alive = WorkerLiveness(database, TENANT, wish, worker, Slots(2), MemoryWatch(0), **how)
    alive._beat()
    with database.transaction() as tx:
        assert status(tx) == "active"
        assert worker_processes.beat(tx, worker), "its children claim under this id"
        worker_processes.stop(tx, worker)


def test_the_living_are_counted_over_a_connection_of_its_own(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        register(tx, TENANT, "a")
        start(tx)
        worker_processes.stop(tx, start(tx))
    assert worker_processes.count_alive_at(fresh_database.url) == 1
