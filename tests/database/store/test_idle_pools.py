"""Connections that nobody uses are closed, and no others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.servers import wait_until

from pipeweave.orchestrator.store import idle_pools
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools are closed almost at once."""
    monkeypatch.setattr(idle_pools, "IDLE_FOR_S", 0.2)
    monkeypatch.setattr(idle_pools, "LOOK_EVERY_S", 0.05)
    # A thread of another test may sleep for longer.
    monkeypatch.setattr("pipeweave.orchestrator.store.connections.IDLE_POOLS", idle_pools.IdlePools())


@pytest.fixture
def opened(fresh_database_url: str) -> Iterator[Database]:
    database = Database(fresh_database_url, pool_size=3)
    yield database
    database.dispose()


def count(watching: Database, watched: Database) -> int:
    """The connections that there are to the database, but for the one that asks."""
    with watching.transaction() as tx:
        return int(
            tx.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND pid <> pg_backend_pid()",
                {"name": watched.url.rpartition("/")[2]},
            ).scalar_one()
        )


def use_at_once(database: Database, times: int) -> None:
    """Use so many connections at the same time."""
    together = threading.Barrier(times)

    def work() -> None:
        with database.transaction() as tx:
            tx.execute("SELECT 1")
            together.wait(60)

    threads = [threading.Thread(target=work) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("impatient")
def test_the_connections_of_an_idle_pool_are_closed_and_opened_again(
    opened: Database, database_url: str
) -> None:
    watching = Database(database_url, pool_size=1)
    for _ in range(2):
        use_at_once(opened, 3)
        wait_until(lambda: count(watching, opened) == 0, what="idle connections stay open")
    watching.dispose()


@pytest.mark.usefixtures("impatient")
def test_a_connection_in_use_is_left_alone_however_long_that_takes(
    opened: Database, database_url: str
) -> None:
    watching = Database(database_url, pool_size=1)
    with opened.transaction() as tx:
        tx.execute("SET LOCAL application_name = 'mine'")
        other = Database(opened.url, pool_size=1)
        with other.transaction() as second:
            second.execute("SELECT 1")
        wait_until(lambda: count(watching, opened) == 1, what="the other pool stays open")
        assert tx.execute("SHOW application_name").scalar_one() == "mine"
    watching.dispose()


def test_a_pool_that_opens_a_connection_for_each_use_needs_no_thread(fresh_database_url: str) -> None:
    before = set(threading.enumerate())
    with Database(fresh_database_url, pool_size=0).transaction() as tx:
        tx.execute("SELECT 1")
    begun = set(threading.enumerate()) - before
    assert "idle-pools" not in [thread.name for thread in begun]
