"""A claim waits for a row lock, and its child is cut off or dies: nothing stays claimed in its name."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.engine.losses import ChildActivity
from pipeweave.orchestrator.registry.worker_processes import child_of, sessions_of
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store import sessions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.process.children import Children

WORKER = "a-worker-with-a-long-name@a-host-with-a-name-that-is-even-longer.example:4711:0badcafe"

# Claims a task run, as a child does.
_CLAIM = """
import os, sys
from uuid import UUID
from pipeweave.orchestrator.registry.worker_processes import child_of, sessions_of
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database

url, worker, run_id = sys.argv[1:]
name = child_of(worker, os.getpid())
database = Database(url, pool_size=1, session_name=sessions_of(name))
database.run(lambda tx: claiming.start(tx, UUID(run_id), [1], 1, worker=name), is_one=False)
"""


@pytest.fixture
def driver(fresh_database: Database) -> RunDriver:
    """Alone in its database, where nobody else waits for a lock."""
    return RunDriver(fresh_database)


@contextmanager
def locked(driver: RunDriver, run_id: UUID) -> Iterator[None]:
    """Hold the rows of a run's task runs, as the tick or a cancel does for a moment."""
    with driver.database.transaction() as tx:
        tx.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :id FOR UPDATE", {"id": run_id})
        yield


def cut(connection: int) -> None:
    """Break a connection as a network does; the server learns of it later."""
    with socket.socket(fileno=os.dup(connection)) as line:
        line.shutdown(socket.SHUT_RDWR)


def assert_queued_at_its_first_attempt(driver: RunDriver, run_id: UUID, name: str) -> None:
    gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = :name AND state = 'active'"
    wait_until(lambda: not driver.rows(gone, name=sessions_of(name)), what="its statement goes on")
    [row] = driver.task_runs(run_id)
    assert (row.status, row.attempt, row.worker) == ("queued", 1, None)


def test_a_claim_whose_answer_is_lost_while_it_waits_is_not_durable_later(driver: RunDriver) -> None:
    run_id, name = driver.begin({"a": []}), child_of(WORKER, os.getpid())
    child = Database(driver.database.url, pool_size=2, session_name=sessions_of(name))
    connections: list[int] = []

    def claim(tx: Transaction) -> object:
        connections.append(tx._connection.fileno())
        return claiming.start(tx, run_id, [1], 1, worker=name)

    with locked(driver, run_id):
        with BackgroundCall(lambda: child.run(claim, is_one=False)) as claimed:
            wait_for_lock(driver.database)
            cut(connections[0])
        assert isinstance(claimed.error, Unavailable)
        losses.of_child(child, ChildActivity(name), failure.lost("unknown"), max_retry_delay_ms=None)
    assert_queued_at_its_first_attempt(driver, run_id, name)
    child.dispose()


def test_a_child_that_is_killed_while_its_claim_waits_holds_nothing_later(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    children = Children(driver.database, Slots(1), max_retry_delay_ms=None)
    with locked(driver, run_id):
        process = subprocess.Popen([sys.executable, "-c", _CLAIM, driver.database.url, WORKER, str(run_id)])
        slot = children.slots.take(0, process.pid)
        assert slot is not None
        slot.begin(run_id, (1,), 1)
        wait_for_lock(driver.database)
        process.send_signal(signal.SIGKILL)
        process.wait()
        driver.sent.clear()
        children.look(WORKER)
        assert list(children.slots.taken()) == [], "it is buried"
        assert [each.ordinal for each in driver.sent if isinstance(each, Released)] == [1]
    assert_queued_at_its_first_attempt(driver, run_id, child_of(WORKER, process.pid))


def test_only_the_sessions_of_one_name_are_ended(driver: RunDriver) -> None:
    names = [sessions_of(child_of(WORKER, pid)) for pid in (1, 2)]
    one, two = (Database(driver.database.url, pool_size=1, session_name=name) for name in names)

    def backend(database: Database) -> int:
        with database.statements() as tx:
            return int(tx.execute("SELECT pg_backend_pid()").scalar_one())

    before = backend(one), backend(two)
    sessions.end(driver.database, names[0])
    alive = driver.rows("SELECT pid FROM pg_stat_activity WHERE pid = ANY(:pids)", pids=list(before))
    assert [row.pid for row in alive] == [before[1]]
    # A process that ends its own sessions goes on with a new one.
    sessions.end(two, names[1])
    assert backend(two) != before[1]
    for each in (one, two):
        each.dispose()


def test_a_name_of_sessions_is_unique_and_short_enough_for_postgresql() -> None:
    names = [sessions_of(child_of(WORKER, pid)) for pid in (12, 123)]
    assert names == ["pipeweave 0badcafe#12", "pipeweave 0badcafe#123"]
