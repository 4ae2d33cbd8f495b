"""A worker says that it is alive, whatever becomes of its children."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave import ids
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.process import liveness
from pipeweave.workers.process.liveness import WorkerLiveness
from pipeweave.workers.process.memory_watch import MemoryWatch

START = WorkerStart("python", "w@host", "host", 1, 1)


@pytest.fixture
def slots_of_a_dead_child() -> Iterator[Slots]:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    slots = Slots(1)
    slot = slots.take(0, dead.pid)
    assert slot is not None
    slot.begin(ids.new_id(), (1,), 1)
    yield slots
    dead.wait()


def test_a_worker_stays_alive_while_the_end_of_a_child_cannot_be_stored(
    database: Database, slots_of_a_dead_child: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise ValueError("it cannot be stored")

    driver = RunDriver(database)
    monkeypatch.setattr(losses, "of_child", refuse)
    monkeypatch.setattr(liveness, "BEAT_EVERY", timedelta(milliseconds=20))
    with database.transaction() as tx:
        worker_id = worker_processes.register(tx, driver.tenant, START)

    def heartbeats() -> set[object]:
        rows = driver.rows("SELECT w.heartbeat_at FROM workers AS w WHERE w.id = :id", id=worker_id)
        return {row.heartbeat_at for row in rows}

    first = heartbeats()
    alive = WorkerLiveness(
        database,
        driver.tenant,
        START,
        worker_id,
        slots_of_a_dead_child,
        MemoryWatch(0),
        grace_s=30.0,
        is_cut_short=bool,
        log_every_s=60.0,
        max_retry_delay_ms=None,
    )
    with alive:
        wait_until(lambda: heartbeats() != first, what="the worker is silent")
