"""The examples of docs/enqueue.md run as they are written."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest
from support.pages import ROOT, blocks
from support.servers import administer
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.domain import enqueue_sql
from pipeweave.orchestrator.starts.enqueued import starting
from pipeweave.up.postgres import ROLE, Postgres

from .conftest import Caller

PAGE = ROOT / "docs/enqueue.md"
ONE, MANY, RELAY = blocks(PAGE, "python")
GRANT, POLICY, INSERT, OUTBOX = blocks(PAGE, "sql")


@pytest.fixture
def default(caller: Caller) -> Caller:
    """A caller of the tenant `default`, with the pipeline of the page."""
    driver = type(caller.driver)(caller.driver.database, tenant="default")
    driver.store({"a": []}, id="charge")
    return Caller(driver, caller.connection)


def test_the_programs_enqueue_what_they_say(default: Caller) -> None:
    with default.connection, default.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id integer PRIMARY KEY, amount integer)")
    given: dict[str, Any] = {"connection": default.connection}
    exec(ONE, given)
    exec(MANY, given)
    starting.run_once(default.driver.database, VALUES)
    for run in (given["run_id"], *given["run_ids"]):
        found = default.driver.run(ids.read(ids.RUN, run))
        assert found.input["order"] in (0, 1, 2, 12)
    with default.connection, default.connection.cursor() as cursor:
        cursor.execute("DROP TABLE orders")


def test_the_rights_are_enough_and_the_policy_holds(default: Caller, postgres_server: Postgres) -> None:
    administer(postgres_server, "CREATE ROLE shop")
    administer(postgres_server, f"GRANT shop TO {ROLE}")
    try:
        with default.connection.cursor() as cursor:
            cursor.execute(GRANT)
            cursor.execute("SET LOCAL ROLE shop")
            cursor.execute(INSERT)
            default.enqueue("charge")
            cursor.execute("RESET ROLE")
            cursor.execute(POLICY)
            cursor.execute("SET LOCAL ROLE shop")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="row-level security"):
                default.enqueue("charge")
        default.connection.rollback()
    finally:
        administer(postgres_server, "DROP ROLE shop")


def test_the_page_grants_every_column() -> None:
    assert f"INSERT ({', '.join(enqueue_sql.COLUMNS)})" in GRANT


def test_the_relay_on_the_page_is_the_example() -> None:
    assert RELAY in (ROOT / "examples/outbox_relay.py").read_text()
    assert "CREATE TABLE outbox" in OUTBOX
