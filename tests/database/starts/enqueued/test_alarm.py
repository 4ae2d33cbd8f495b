"""Beat sleeps until a run is enqueued, and nobody is notified while it is awake."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
import pytest
from support.servers import WAIT_DEADLINE_S, wait_until

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.starts.enqueued import starting
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store import alarm as alarms
from pipeweave.orchestrator.store.alarm import Alarm
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.up.postgres import Postgres
from pipeweave.workers.loops import enqueued as loop

from .conftest import Caller

# Of this database: other tests have stacks at the same server.
SLEEPERS = f"""
SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = {advisory_locks.ASLEEP}
"""


@contextmanager
def alarm(database: Database) -> Iterator[Alarm]:
    """One that nobody has set yet, over a session of its own."""
    own = Database(database.url, pool_size=1)
    with own.statements() as tx, starting.alarm(tx) as made:
        yield made
    own.dispose()


def sleepers(database: Database) -> int:
    with database.statements() as tx:
        return int(tx.execute(SLEEPERS).scalar_one())


def test_the_commit_of_who_enqueues_wakes_up(caller: Caller) -> None:
    with alarm(caller.driver.database) as bell:
        assert bell.set()
        caller.enqueue()
        caller.connection.rollback()
        caller.enqueue()
        assert not bell.wait(0)
        caller.commit()
        assert bell.wait(WAIT_DEADLINE_S)
        assert not bell.is_set
        assert sleepers(caller.driver.database) == 0


def test_nobody_is_notified_while_nobody_sleeps(caller: Caller) -> None:
    listener = psycopg2.connect(caller.driver.database.url)
    listener.autocommit = True
    with alarm(caller.driver.database) as bell, listener.cursor() as cursor:
        cursor.execute("LISTEN pipeweave_rows")
        caller.enqueue()
        caller.commit()
        bell.set()
        bell.clear()
        caller.enqueue()
        caller.commit()
        # What comes before it would have been heard before it.
        cursor.execute("SELECT pg_notify('pipeweave_rows', 'of the test')")
        assert [each.payload for each in listener.notifies] == ["of the test"]
    listener.close()


def test_two_that_sleep_are_both_woken_up_and_one_sleeps_on_for_the_other(caller: Caller) -> None:
    database = caller.driver.database
    with alarm(database) as second:
        with alarm(database) as first:
            assert first.set()
            assert second.set()
            caller.enqueue()
            caller.commit()
            assert first.wait(WAIT_DEADLINE_S)
            assert second.wait(WAIT_DEADLINE_S)
            assert first.set()
            assert second.set()
        second.clear()
        assert second.set()
        assert sleepers(database) == 1


def test_a_session_that_dies_sleeps_no_more(caller: Caller) -> None:
    database = caller.driver.database
    with alarm(database) as bell:
        bell.set()
        with database.statements() as tx:
            tx.execute("SELECT pg_terminate_backend(:pid)", {"pid": bell._session.pid})
        # It ends at once, although nobody has enqueued anything.
        assert not bell.wait(WAIT_DEADLINE_S)
        bell.clear()
        assert bell._session.closed
    wait_until(lambda: sleepers(database) == 0)


def test_a_caller_who_may_not_notify_enqueues_all_the_same(caller: Caller, postgres_server: Postgres) -> None:
    with alarm(caller.driver.database) as bell, forbidden(postgres_server, caller, "pg_notify"):
        bell.set()
        caller.enqueue()
        caller.commit()
        assert not bell.wait(0)
    assert len(caller.rows()) == 1


@contextmanager
def forbidden(server: Postgres, caller: Caller, function: str) -> Iterator[None]:
    """Nobody but the superuser may call a function of PostgreSQL."""
    name = caller.connection.info.dbname
    with (
        contextlib.closing(psycopg2.connect(server.admin_url, dbname=name)) as admin,
        admin.cursor() as cursor,
    ):
        admin.autocommit = True
        cursor.execute(f"REVOKE EXECUTE ON FUNCTION pg_catalog.{function} FROM PUBLIC")
        try:
            yield
        finally:
            cursor.execute(f"GRANT EXECUTE ON FUNCTION pg_catalog.{function} TO PUBLIC")


def test_no_transaction_is_notified_of_where_transactions_can_be_prepared(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `max_prepared_transactions`, which only a new start of the server changes.
    monkeypatch.setattr(alarms, "_FALL_ASLEEP", alarms._FALL_ASLEEP.replace("= '0'", "<> '0'"))
    with alarm(caller.driver.database) as bell:
        assert not bell.set()
        assert not bell.is_of_use
        assert sleepers(caller.driver.database) == 0


@pytest.fixture
def deployment(caller: Caller) -> Iterator[Deployment]:
    """Its database, as a program with loops opens it."""
    opened = Deployment.open(
        Settings(database_url=caller.driver.database.url, mode="serverless"), pool_size=1
    )
    yield opened
    opened.close()


def test_the_loop_falls_asleep_soon_after_a_run_and_wakes_up_for_the_next_one(
    caller: Caller, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look that nothing wakes up would come after the test is over.
    monkeypatch.setattr(loop, "SELDOM_S", 2 * WAIT_DEADLINE_S)
    monkeypatch.setattr(loop, "LONGEST_PAUSE_S", 2 * WAIT_DEADLINE_S)
    database, end = caller.driver.database, threading.Event()
    starts = loop.EnqueuedStarts(deployment)
    caller.enqueue()
    caller.commit()
    starts.turn(end)
    assert len(caller.runs()) == 1
    assert starts._used_at is not None

    def go_on() -> None:
        while len(caller.runs()) < 2:
            starts.turn(end)

    turns = threading.Thread(target=go_on)
    turns.start()
    wait_until(lambda: sleepers(database) == 1)
    caller.enqueue()
    caller.commit()
    turns.join(WAIT_DEADLINE_S)
    assert len(caller.runs()) == 2
    assert sleepers(database) == 0
