"""PostgreSQL behind a PgBouncer in transaction mode: nothing is left in a session, or expected of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from support.pgbouncer import SESSIONS, pooled

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.pooler import local_settings
from pipeweave.orchestrator.store.statements import MANY_NAMES, PREPARE_AFTER
from pipeweave.up.postgres import Postgres

OFTEN = 3 * PREPARE_AFTER


@pytest.fixture(params=["", "ignore_startup_parameters = options"], ids=["refuses", "ignores"])
def pooled_url(
    request: pytest.FixtureRequest, postgres_server: Postgres, database_url: str, tmp_path: Path
) -> Iterator[str]:
    """The shared database behind a PgBouncer that refuses options of the server, or ignores them."""
    with pooled(postgres_server, database_url, tmp_path / "pgbouncer", more=request.param) as url:
        yield url


@pytest.fixture
def database(pooled_url: str) -> Iterator[Database]:
    opened = Database(pooled_url, pool_size=2)
    yield opened
    opened.dispose()


def sessions(url: str, question: str) -> set[str]:
    """What all sessions behind the pooler answer to a question, each asked while all are in use."""
    clients = [psycopg2.connect(url) for _ in range(SESSIONS)]
    answers = set()
    for client in clients:
        cursor = client.cursor()
        cursor.execute(question)
        answers.add(str(cursor.fetchone()))
    for client in clients:
        client.close()
    return answers


def test_nothing_is_prepared_and_no_setting_is_left_in_a_session(database: Database, pooled_url: str) -> None:
    for number in range(OFTEN):
        with database.transaction() as tx:
            assert tx.execute("SELECT :n + 0", {"n": number}).scalar_one() == number
        with database.statements() as tx:
            assert tx.execute("SELECT :n + 1", {"n": number}).scalar_one() == number + 1
        with database.reading() as tx:
            assert tx.execute("SELECT :n + 2", {"n": number}).scalar_one() == number + 2
    assert sessions(pooled_url, "SELECT count(*) FROM pg_prepared_statements") == {"(0,)"}
    assert sessions(pooled_url, "SHOW enable_seqscan") == {"('on',)"}
    assert sessions(pooled_url, "SHOW default_transaction_read_only") == {"('off',)"}
    assert sessions(pooled_url, "SHOW statement_timeout") == {"('0',)"}


def test_a_statement_has_the_settings_of_its_pool_inside_and_outside_of_a_transaction(
    database: Database,
) -> None:
    with database.transaction() as tx:
        assert [tx.execute("SHOW enable_seqscan").scalar_one() for _ in range(2)] == ["off", "off"]
        assert tx.execute("SHOW idle_in_transaction_session_timeout").scalar_one() != "0"
    many = {"run_id": uuid4(), "ids": [uuid4()] * (MANY_NAMES + 1)}
    with database.transaction() as tx:
        assert tx.execute(f"SELECT t.id FROM {NAMED} JOIN task_runs AS t ON {by_key()}", many).all() == []
        assert tx.execute("SHOW enable_nestloop").scalar_one() == "on"
        assert tx.execute("SHOW enable_hashjoin").scalar_one() == "off"
    with database.statements() as tx:
        assert [tx.execute("SHOW enable_hashjoin").scalar_one() for _ in range(2)] == ["off", "off"]
        tx.hold()
        assert tx.execute("SHOW enable_hashjoin").scalar_one() == "off"
    with database.reading() as tx:
        assert tx.execute("SHOW statement_timeout").scalar_one() == "5s"
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            tx.execute("CREATE TABLE not_here (n integer)")


def test_a_lease_is_held_for_the_block_whoever_else_uses_its_session(
    database: Database, pooled_url: str
) -> None:
    lasts = timedelta(minutes=1)
    with closing(psycopg2.connect(pooled_url)), leases.held(database, "pooled", lasts) as lease:
        assert lease is not None
        other = Database(pooled_url, pool_size=2)
        assert leases.take(other, "pooled", lasts) is None
        with database.transaction() as tx:
            leases.check(tx, lease)
        assert leases.take(other, "pooled", lasts) is None
    with leases.held(other, "pooled", lasts) as another:
        assert another is not None
    other.dispose()


def test_a_tick_behind_a_pooler_does_not_wait_for_locks(database: Database) -> None:
    with database.impatient().statements() as tx:
        assert tx.execute("SHOW lock_timeout").scalar_one() == "100ms"


def test_many_clients_share_few_sessions(pooled_url: str) -> None:
    counted: list[int] = []

    def work() -> None:
        own = Database(pooled_url, pool_size=1)
        for number in range(OFTEN):
            with own.transaction() as tx:
                counted.append(tx.execute("SELECT :n + 0", {"n": number}).scalar_one())
        own.dispose()

    threads = [threading.Thread(target=work) for _ in range(4 * SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == sorted(4 * SESSIONS * list(range(OFTEN)))


def test_a_refusal_of_another_kind_is_not_taken_for_a_pooler(database_url: str) -> None:
    wrong = Database(database_url.rpartition("/")[0] + "/no_such_database", pool_size=1)
    with pytest.raises(Unavailable, match="does not exist"), wrong.transaction() as tx:
        tx.execute("SELECT 1")


def test_without_a_pooler_settings_are_those_of_the_session(database_url: str) -> None:
    direct = Database(database_url, pool_size=1)
    for _ in range(OFTEN):
        with direct.transaction() as tx:
            tx.execute("SELECT 5 + 0")
    with direct.transaction() as tx:
        names = tx.execute("SELECT statement FROM pg_prepared_statements").scalars()
        assert any("SELECT 5 + 0" in name for name in names)
    direct.dispose()


def test_the_settings_of_a_session_become_those_of_a_transaction() -> None:
    settings = {"plan_cache_mode": "auto", "enable_seqscan": "off", "default_transaction_read_only": "on"}
    assert (
        local_settings(settings)
        == "SET LOCAL enable_seqscan = 'off'; SET LOCAL transaction_read_only = 'on'; "
    )
