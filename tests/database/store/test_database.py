"""Transactions and connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg2
import pytest
from support.concurrency import BackgroundCall
from support.servers import wait_until

from pipeweave.errors import Deadlocked, SchemaOutdated, Unavailable
from pipeweave.orchestrator.store import connections
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.statements import PREPARE_AFTER

# Sent plainly at first, then prepared.
OFTEN = PREPARE_AFTER + 2


@pytest.fixture
def alone(database_url: str) -> Iterator[Database]:
    """A database over one connection."""
    opened = Database(database_url, pool_size=1)
    yield opened
    opened.dispose()


@pytest.fixture
def table(alone: Database) -> Iterator[str]:
    """A table of one's own with the rows 1 and 2."""
    name = f"own_{uuid4().hex}"
    with alone.transaction() as tx:
        tx.execute(f"CREATE TABLE {name} (n integer PRIMARY KEY, said text)")
        tx.execute(f"INSERT INTO {name} SELECT * FROM generate_series(1, 2)")
    yield name
    with alone.transaction() as tx:
        tx.execute(f"DROP TABLE {name}")


# --- transactions -----------------------------------------------------------------------------------------


def test_a_transaction_is_durable_as_a_whole_or_not_at_all(alone: Database, table: str) -> None:
    with pytest.raises(ZeroDivisionError), alone.transaction() as tx:
        tx.execute(f"DELETE FROM {table}")
        raise ZeroDivisionError
    with alone.transaction() as tx:
        assert tx.execute(f"SELECT n FROM {table}").rowcount == 2
        tx.execute(f"DELETE FROM {table}")
    with alone.reading() as tx:
        assert tx.execute(f"SELECT n FROM {table}").all() == []


def test_statements_commit_each_by_itself_until_one_holds_the_rest(alone: Database, table: str) -> None:
    with pytest.raises(ZeroDivisionError), alone.statements() as tx:
        tx.execute(f"DELETE FROM {table} WHERE n = 1")
        tx.hold()
        tx.execute(f"DELETE FROM {table} WHERE n = 2")
        raise ZeroDivisionError
    with alone.reading() as tx:
        assert tx.execute(f"SELECT n FROM {table}").scalars() == [2]


def test_errors_of_postgresql_keep_their_code(alone: Database, table: str) -> None:
    with pytest.raises(psycopg2.IntegrityError) as twice, alone.transaction() as tx:
        tx.execute(f"INSERT INTO {table} VALUES (:n)", {"n": 1})
    assert (twice.value.pgcode, twice.value.diag.constraint_name) == ("23505", f"{table}_pkey")
    with pytest.raises(psycopg2.Error) as refused, alone.statements() as tx:
        tx.execute("SELECT 1 / 0")
    assert refused.value.pgcode == "22012"


@pytest.mark.parametrize("missing", ["nowhere", "runs.nothing"])
def test_a_missing_table_or_column_says_that_the_schema_is_not_there(alone: Database, missing: str) -> None:
    statement = f"SELECT {missing} FROM runs" if "." in missing else f"SELECT * FROM {missing}"
    with pytest.raises(SchemaOutdated, match="does not exist") as refused, alone.statements() as tx:
        tx.execute(statement)
    assert refused.value.hint == "run `pipeweave db migrate`"


def test_a_transaction_that_failed_does_not_pass_for_durable(alone: Database, table: str) -> None:
    with pytest.raises(RuntimeError, match="failed before its commit"), alone.transaction() as tx:
        tx.execute(f"DELETE FROM {table}")
        with pytest.raises(psycopg2.Error):
            tx.execute("SELECT 1 / 0")
    with alone.transaction() as tx:
        assert tx.execute(f"SELECT n FROM {table}").rowcount == 2


def test_looking_cannot_write(alone: Database, table: str) -> None:
    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction), alone.reading() as tx:
        tx.execute(f"DELETE FROM {table}")


def test_an_action_after_the_commit_sees_the_rows_and_gets_a_connection(alone: Database, table: str) -> None:
    found: list[int] = []

    def look() -> None:
        with alone.transaction() as tx:
            found.append(tx.execute(f"SELECT n FROM {table}").rowcount)

    with alone.transaction() as tx:
        tx.after_commit(look)
        tx.execute(f"DELETE FROM {table} WHERE n = 1")
        assert found == []
    assert found == [1]


def test_a_connection_in_an_open_transaction_is_not_lent_again(alone: Database) -> None:
    with alone.statements() as tx:
        left = tx.execute("BEGIN; SELECT pg_backend_pid()").scalar_one()
    assert backend(alone) != left


def update(tx: Transaction, table: str, n: int) -> None:
    tx.execute(f"UPDATE {table} SET said = 'x' WHERE n = :n", {"n": n})


def test_one_of_two_deadlocked_transactions_raises_deadlocked(database: Database, table: str) -> None:
    gate = threading.Barrier(2)

    def touch(first: int, second: int) -> None:
        with database.transaction() as tx:
            update(tx, table, first)
            gate.wait(60)
            update(tx, table, second)

    with BackgroundCall(lambda: touch(1, 2)) as one, BackgroundCall(lambda: touch(2, 1)) as other:
        pass
    assert {type(one.error), type(other.error)} == {type(None), Deadlocked}


def test_run_repeats_a_deadlocked_transaction(database: Database, table: str) -> None:
    tries: list[str] = []
    gate = threading.Barrier(2)

    def touch(said: str, first: int, second: int) -> None:
        def work(tx: Transaction) -> None:
            tries.append(said)
            update(tx, table, first)
            if tries.count(said) == 1:
                gate.wait(60)
            update(tx, table, second)

        database.run(work)

    with (
        BackgroundCall(lambda: touch("one", 1, 2)) as one,
        BackgroundCall(lambda: touch("other", 2, 1)) as other,
    ):
        pass
    assert (one.error, other.error) == (None, None)
    # One of the two had to; it may meet the other once more.
    assert len(tries) >= 3


# --- connections ------------------------------------------------------------------------------------------


def backend(database: Database) -> int:
    """The server process behind the connection that is next."""
    with database.statements() as tx:
        return int(tx.execute("SELECT pg_backend_pid()").scalar_one())


def wait_for_the_end(database: Database, pid: int) -> None:
    def is_gone() -> bool:
        with database.statements() as tx:
            found = tx.execute("SELECT 1 FROM pg_stat_activity WHERE pid = :pid", {"pid": pid})
            return found.first() is None

    wait_until(is_gone, what="the server process still lives")


def kill(database: Database, pid: int) -> None:
    """End a server process, by another connection."""
    with database.statements() as tx:
        assert tx.execute("SELECT pg_terminate_backend(:pid)", {"pid": pid}).scalar_one()
    wait_for_the_end(database, pid)


def test_a_killed_connection_costs_one_transaction(alone: Database, database: Database) -> None:
    with pytest.raises(Unavailable, match="PostgreSQL cannot be used"), alone.transaction() as tx:
        kill(database, tx.execute("SELECT pg_backend_pid()").scalar_one())
        tx.execute("SELECT 1")
    with alone.transaction() as tx:
        assert tx.execute("SELECT 1").scalar_one() == 1


def test_a_connection_that_died_a_moment_after_its_use_costs_one_statement(
    alone: Database, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 3600)
    kill(database, backend(alone))
    with pytest.raises(Unavailable):
        backend(alone)
    assert backend(alone)


def test_a_connection_that_died_unused_is_replaced_unseen(
    alone: Database, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0)
    died = backend(alone)
    kill(database, died)
    assert backend(alone) != died


def test_where_one_connection_died_the_others_are_asked(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 3600)
    several = Database(database_url, pool_size=3)
    with several.statements() as a, several.statements() as b, several.statements() as c:
        pids = [tx.execute("SELECT pg_backend_pid()").scalar_one() for tx in (a, b, c)]
    for pid in pids:
        kill(database, pid)
    with pytest.raises(Unavailable):
        backend(several)
    with several.statements() as a, several.statements() as b, several.statements() as c:
        assert [tx.execute("SELECT 1").scalar_one() for tx in (a, b, c)] == [1, 1, 1]
    several.dispose()


def test_a_transaction_that_idled_too_long_is_unavailable(alone: Database, database: Database) -> None:
    with pytest.raises(Unavailable), alone.transaction() as tx:
        pid = tx.execute("SELECT pg_backend_pid()").scalar_one()
        tx.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
        wait_for_the_end(database, pid)
        tx.execute("SELECT 1")
    assert backend(alone)


PREPARED = "SELECT name FROM pg_prepared_statements WHERE statement LIKE :text"


def test_a_frequent_statement_is_prepared_again_on_a_new_connection(
    alone: Database, database: Database
) -> None:
    mark = uuid4().hex
    statement = f"SELECT pg_backend_pid() AS pid, CAST(:n AS integer) AS {'m' + mark}"

    def send(n: int) -> tuple[int, bool]:
        with alone.statements() as tx:
            row = tx.execute(statement, {"n": n}).one()
            assert row[1] == n
            return row.pid, bool(tx.execute(PREPARED, {"text": f"%m{mark}%"}).all())

    first = [send(n) for n in range(OFTEN)]
    assert [is_prepared for _, is_prepared in first] == [False] * PREPARE_AFTER + [True] * 2
    kill(database, first[0][0])
    with suppress(Unavailable):
        send(7)
    again = send(8)
    assert again[0] != first[0][0]
    assert again[1]


def test_a_server_that_is_not_there_is_unavailable() -> None:
    nowhere = Database("postgresql://nobody:secret@127.0.0.1:1/nothing")
    with pytest.raises(Unavailable) as refused, nowhere.transaction():
        pass
    assert "secret" not in str(refused.value)
    with pytest.raises(Unavailable), nowhere.reading():
        pass
