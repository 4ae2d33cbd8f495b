"""PostgreSQL takes no writes, as after a failover: that is like being away, and ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import psycopg2
import pytest
from support.servers import read_only

from pipeweave.errors import ReadOnly, Unavailable
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.up.postgres import Postgres

WRITE = "DELETE FROM tenants WHERE id = 'nobody'"


@pytest.fixture
def several(fresh_database_url: str) -> Iterator[Database]:
    """An empty database over three connections."""
    opened = Database(fresh_database_url, pool_size=3)
    yield opened
    opened.dispose()


def write(database: Database) -> None:
    with database.transaction() as tx:
        tx.execute(WRITE)


def test_a_write_that_is_refused_means_away_for_now_and_reading_goes_on(
    several: Database, postgres_server: Postgres
) -> None:
    with read_only(postgres_server, several.url):
        with pytest.raises(ReadOnly) as refused:
            write(several)
        assert isinstance(refused.value, Unavailable)
        with several.statements() as tx, pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            tx.execute(WRITE)
        with several.reading() as tx:
            assert tx.execute("SELECT 1").scalar_one() == 1


def test_sessions_that_began_without_writes_do_not_outlive_that(
    several: Database, postgres_server: Postgres
) -> None:
    with read_only(postgres_server, several.url):
        with several.statements() as a, several.statements() as b, several.statements() as c:
            for tx in (a, b, c):
                assert tx.execute("SHOW transaction_read_only").scalar_one() == "on"
        with pytest.raises(ReadOnly):
            write(several)
    with several.transaction() as a, several.transaction() as b, several.transaction() as c:
        for tx in (a, b, c):
            tx.execute(WRITE)


def test_a_verb_that_writes_where_only_reading_is_allowed_is_an_error_of_its_own(several: Database) -> None:
    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction), several.reading() as tx:
        tx.execute(WRITE)


def test_a_chore_stops_at_the_first_item_that_cannot_be_written(
    several: Database, postgres_server: Postgres
) -> None:
    tried: list[int] = []

    def fail(number: int) -> NoReturn:
        tried.append(number)
        write(several)
        raise AssertionError("it was written")

    one_by_one = Isolation(several)
    with read_only(postgres_server, several.url), pytest.raises(ReadOnly):
        for number in range(3):
            one_by_one.run(lambda number=number: fail(number), item=number)  # type: ignore[misc]
    assert tried == [0]


@pytest.mark.parametrize("more", ["", "&connect_timeout=7"])
def test_reads_go_to_the_primary_of_a_url_that_asks_for_writable_servers(
    fresh_database_url: str, more: str
) -> None:
    opened = Database(f"{fresh_database_url}?target_session_attrs=read-write{more}", pool_size=2)
    try:
        for begin in (opened.reading, opened.following, opened.reserved, opened.transaction):
            with begin() as tx:
                assert tx.execute("SELECT pg_is_in_recovery()").scalar_one() is False
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction), opened.reading() as tx:
            tx.execute(WRITE)
    finally:
        opened.dispose()
