"""`pipeweave.enqueue` over every kind of connection, and what it refuses before it sends anything."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from support.servers import administer

import pipeweave
from pipeweave.errors import Forbidden, InvalidInput, SchemaOutdated
from pipeweave.up.postgres import ROLE, Postgres

from .conftest import Caller


def engine(url: str, driver: str, **options: Any) -> sqlalchemy.Engine:
    full = url.replace("postgresql://", f"postgresql+{driver}://", 1)
    return sqlalchemy.create_engine(full, poolclass=NullPool, **options)


@contextmanager
def closing(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    finally:
        connection.close()


def psycopg2_plain(url: str) -> Any:
    return closing(psycopg2.connect(url))


def psycopg2_of_dicts(url: str) -> Any:
    return closing(psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor))


def psycopg_plain(url: str) -> Any:
    return closing(psycopg.connect(url))


def psycopg_of_dicts(url: str) -> Any:
    return closing(psycopg.connect(url, row_factory=dict_row, prepare_threshold=0))


def psycopg_raw(url: str) -> Any:
    return closing(psycopg.connect(url, cursor_factory=psycopg.RawCursor))


def psycopg_in_the_client(url: str) -> Any:
    return closing(psycopg.connect(url, cursor_factory=psycopg.ClientCursor))


def sqlalchemy_connection(url: str) -> Any:
    return engine(url, "psycopg2").connect()


def sqlalchemy_psycopg(url: str) -> Any:
    return engine(url, "psycopg", isolation_level="SERIALIZABLE").connect()


def sqlalchemy_session(url: str) -> Any:
    return Session(engine(url, "psycopg"))


def sqlalchemy_scoped_session(url: str) -> Any:
    return closing(scoped_session(sessionmaker(engine(url, "psycopg2"))))


OPENERS = [
    *(psycopg2_plain, psycopg2_of_dicts),
    *(psycopg_plain, psycopg_of_dicts, psycopg_raw, psycopg_in_the_client),
    *(sqlalchemy_connection, sqlalchemy_psycopg, sqlalchemy_session, sqlalchemy_scoped_session),
]


@pytest.mark.parametrize("opened", OPENERS)
def test_a_run_is_enqueued_with_the_commit_or_not_at_all(
    caller: Caller, opened: Callable[[str], Any]
) -> None:
    given = {"name": "café %s :x {}", "share": 0.5, "list": [1, None]}
    with opened(caller.driver.database.url) as connection:
        pipeweave.enqueue(connection, "files", given, tenant=caller.tenant)
        connection.rollback()
        run = pipeweave.enqueue(connection, "files", given, tenant=caller.tenant)
        many = pipeweave.enqueue_many(connection, "files", [{"n": n} for n in range(3)], tenant=caller.tenant)
        assert not caller.rows()
        connection.commit()
    caller.start()
    assert caller.runs() == [run, *many]
    first = caller.driver.rows("SELECT * FROM runs WHERE tenant_id = :t ORDER BY id", t=caller.tenant)[0]
    assert first.input == given
    assert (first.triggered_kind, first.triggered_id, first.triggered_actor) == (
        "transaction",
        None,
        "pipeweave",
    )
    assert not caller.rows()


@pytest.mark.parametrize("driver", ["psycopg", "sqlalchemy", "session"])
def test_asynchronous_connections_do_the_same(caller: Caller, driver: str) -> None:
    url = caller.driver.database.url

    async def enqueue_over(connection: Any) -> list[str]:
        await pipeweave.enqueue_async(connection, "files", tenant=caller.tenant)
        await connection.rollback()
        run = await pipeweave.enqueue_async(connection, "files", {"x": 1}, tenant=caller.tenant)
        more = await pipeweave.enqueue_many_async(connection, "files", [1, 2], tenant=caller.tenant)
        await connection.commit()
        return [run, *more]

    async def enqueue() -> list[str]:
        if driver == "psycopg":
            async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
                return await enqueue_over(connection)
        made = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
        if driver == "session":
            async with AsyncSession(made) as session:
                return await enqueue_over(session)
        async with made.connect() as connection:
            return await enqueue_over(connection)

    runs = asyncio.run(enqueue())
    caller.start()
    assert caller.runs() == runs


def test_cursors_savepoints_and_autocommit(caller: Caller) -> None:
    url, tenant = caller.driver.database.url, caller.tenant
    with psycopg.connect(url) as connection, connection.transaction():
        first = pipeweave.enqueue(connection.cursor(row_factory=dict_row), "files", tenant=tenant)
        with pytest.raises(ZeroDivisionError), connection.transaction():
            pipeweave.enqueue(connection, "files", tenant=tenant)
            raise ZeroDivisionError
        second = pipeweave.enqueue(connection, "files", tenant=tenant)
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        third = pipeweave.enqueue(connection.cursor(), "files", tenant=tenant)
    caller.start()
    assert caller.runs() == [first, second, third]


def test_every_mistake_is_named_before_a_statement_is_sent(caller: Caller) -> None:
    with pytest.raises(InvalidInput) as raised:
        pipeweave.enqueue(
            caller.connection,
            "no name",
            {"when": object(), "text": "\0"},
            tenant="",
            failure_mode="maybe",
            priority=10**9,
            metadata=["x"],  # type: ignore[arg-type]
            run_token="",
            schema='public"; DROP TABLE runs',
        )
    assert [each.field for each in raised.value.errors] == [
        *("schema", "failure_mode", "tenant", "pipeline_id", "priority", "metadata"),
        *("input.when", "run_token"),
    ]
    assert caller.connection.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_IDLE


@pytest.mark.parametrize(
    ("inputs", "options", "field"),
    [
        ({"a": 1}, {}, "inputs"),
        (range(10_001), {}, "inputs"),
        ([1, "\0"], {}, "inputs[1]"),
        ([1, 2], {"run_tokens": ["a"]}, "run_tokens"),
        ([1, 2], {"run_tokens": ["a", ""]}, "run_tokens[1]"),
        (["x" * 10_000_000], {}, "inputs[0]"),
        ([1], {"metadata": {"x": "y" * 33_000}}, "metadata"),
    ],
)
def test_bounds_of_many_runs(caller: Caller, inputs: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        pipeweave.enqueue_many(caller.connection, "files", inputs, **options)
    assert [each.field for each in raised.value.errors] == [field]


def test_no_runs_are_no_statement(caller: Caller) -> None:
    assert pipeweave.enqueue_many(caller.connection, "files", []) == []
    assert caller.connection.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_IDLE


def test_what_is_no_connection_is_refused() -> None:
    sqlite = sqlalchemy.create_engine("sqlite://")
    with sqlite.connect() as connection, closing(sqlite3.connect(":memory:")) as plain:
        for given in (None, "postgresql://", sqlite, connection, plain):
            with pytest.raises(InvalidInput) as raised:
                pipeweave.enqueue(given, "files")
            assert raised.value.errors[0].field == "connection"
            assert "a psycopg2 or psycopg connection" in str(raised.value)
    sqlite.dispose()


def test_the_forms_for_asyncio_are_named(caller: Caller) -> None:
    async def enqueue() -> None:
        async with await psycopg.AsyncConnection.connect(caller.driver.database.url) as connection:
            with pytest.raises(InvalidInput, match="use enqueue_async"):
                pipeweave.enqueue(connection, "files")

    asyncio.run(enqueue())
    with pytest.raises(InvalidInput, match="use enqueue or"):
        asyncio.run(pipeweave.enqueue_async(caller.connection, "files"))


def test_a_database_without_the_table_leaves_the_transaction_whole(
    caller: Caller, postgres_server: Postgres
) -> None:
    with closing(psycopg2.connect(postgres_server.url)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE kept AS SELECT 1 AS x")
        with pytest.raises(SchemaOutdated, match=r"public\.enqueued_runs"):
            pipeweave.enqueue(connection, "files")
        cursor.execute("SELECT x FROM kept")
        assert cursor.fetchall() == [(1,)]


@pytest.fixture
def shop(postgres_server: Postgres) -> Iterator[str]:
    """A role without any rights, which PipeWeave's role may take on."""
    administer(postgres_server, "CREATE ROLE shop")
    administer(postgres_server, f"GRANT shop TO {ROLE}")
    yield "shop"
    administer(postgres_server, "DROP ROLE shop")


GRANT = """
GRANT INSERT (id, tenant_id, pipeline_id, input, run_token, failure_mode, priority, metadata, traceparent)
    ON enqueued_runs TO {role}
"""


def test_a_role_needs_insert_on_these_columns_and_nothing_else(caller: Caller, shop: str) -> None:
    with caller.connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {shop}")
        with pytest.raises(Forbidden, match="may not INSERT"):
            caller.enqueue()
        cursor.execute("RESET ROLE")
        cursor.execute(GRANT.format(role=shop))
        cursor.execute(f"SET LOCAL ROLE {shop}")
        caller.enqueue()
        # What says who enqueued it cannot be forged.
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("INSERT INTO enqueued_runs (pipeline_id, enqueued_by) VALUES ('files', 'root')")
    caller.connection.rollback()
    assert not caller.rows()


def test_plain_sql_of_any_language_enqueues_too(caller: Caller) -> None:
    with caller.connection.cursor() as cursor:
        statement = """INSERT INTO enqueued_runs (tenant_id, pipeline_id, input)
            VALUES (%s, 'files', '{"x": 1}') RETURNING id"""
        cursor.execute(statement, (caller.tenant,))
        [(id,)] = cursor.fetchall()
    caller.commit()
    caller.start()
    assert len(caller.runs()) == 1
    assert str(id).endswith("000000")


def test_ten_thousand_are_one_statement(caller: Caller) -> None:
    runs = pipeweave.enqueue_many(caller.connection, "files", range(10_000), tenant=caller.tenant)
    assert len(set(runs)) == 10_000
    assert runs == sorted(runs)
    caller.connection.rollback()


def test_the_base_install_is_enough() -> None:
    """A caller has its own driver; nothing else is imported because of us."""
    program = """
import sys, pipeweave
from pipeweave.enqueueing.synchronous import statements
pipeweave.enqueue, pipeweave.enqueue_async, statements()
print(*sorted({"celery", "flask", "kombu", "psycopg", "psycopg2", "redis", "sqlalchemy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
