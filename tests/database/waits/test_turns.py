"""Tenants take turns with their due waits, however many one of them has."""

from __future__ import annotations

from typing import Any

import pytest
from support.plans import plans_of, read_whole, rows_looked_at
from support.run_driver import RunDriver
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.waits import due
from pipeweave.spec.wait_steps import Sleep

DAY_MS = 86_400_000

# Rows of runs that there are not: a look passes over them.
CROWD = """
INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at, data,
    created_at, needs_storage)
SELECT n.id, n.id, :tenant, n.id, 1, 'timer', now() - CAST(:overdue AS interval), 'infinity', '{}', now(),
    :needs_storage
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, :number)) AS n
"""


def crowd(
    database: Database, tenant: str, number: int, *, overdue: str = "1 hour", needs_storage: bool = False
) -> None:
    """Let so many waits of a tenant be due."""
    with database.transaction() as tx:
        parameters = {"tenant": tenant, "number": number, "overdue": overdue, "needs_storage": needs_storage}
        tx.execute(CROWD, parameters)
        tx.execute("ANALYZE waits")


def asleep(database: Database, tenant: str) -> tuple[RunDriver, Any]:
    """A run of a tenant whose sleep is over since a moment; who drives it, and its id."""
    runs = WaitingRuns(RunDriver(database, tenant))
    run_id = runs.begin({"sleep": Sleep(ms=DAY_MS)})
    due_now = "UPDATE waits SET due_at = now(), timeout_at = now() WHERE run_id = :id RETURNING run_id"
    runs.driver.rows(due_now, id=run_id)
    return runs.driver, run_id


@pytest.mark.parametrize("needs_storage", [False, True], ids=["plain", "stored"])
def test_a_crowd_of_due_waits_of_one_tenant_hides_no_wait_of_another(
    isolated_driver: RunDriver, needs_storage: bool
) -> None:
    database = isolated_driver.database
    crowd(database, "crowded", 12 * due.BATCH, needs_storage=needs_storage)
    driver, run_id = asleep(database, "small")
    driver.rows(f"UPDATE waits SET needs_storage = {needs_storage} WHERE run_id = :id RETURNING 1", id=run_id)
    ended = due.run_stored(database, driver.values) if needs_storage else due.run_once(database)
    assert ended == 1
    assert driver.statuses(run_id)["sleep"] == "completed"


def test_more_tenants_than_one_look_asks_are_asked_by_the_next_looks(
    isolated_driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = isolated_driver.database
    monkeypatch.setattr(due, "BATCH", 10)
    monkeypatch.setattr(due, "TENANTS", 2)
    crowd(database, "a", 50)
    for number in range(4):
        crowd(database, f"b{number}", 1, overdue="-1 hour")
    driver, run_id = asleep(database, "z")
    # Of a, b0; b1, b2; b3, z; and from the beginning.
    assert [due.run_once(database) for _ in range(3)] == [0, 0, 1]
    assert driver.statuses(run_id)["sleep"] == "completed"
    _, again = asleep(database, "a0")
    assert due.run_once(database) + due.run_once(database) == 1
    assert driver.statuses(again)["sleep"] == "completed"


@pytest.mark.parametrize("statement", [due._DUE, due._STORED_DUE], ids=["plain", "stored"])
def test_a_look_reads_no_more_rows_when_more_are_due(
    isolated_driver: RunDriver, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    database = isolated_driver.database
    needs_storage = statement is due._STORED_DUE
    for tenant in ("large", "other"):
        crowd(database, tenant, 5_000, needs_storage=needs_storage)
    few = _looked_at(database, statement, monkeypatch)
    crowd(database, "large", 30_000, needs_storage=needs_storage)
    assert _looked_at(database, statement, monkeypatch) <= few + due.BATCH


def _looked_at(database: Database, statement: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """The rows that a look reads; it reads no table from end to end."""

    def look(tx: Transaction) -> None:
        tx.execute(statement, {"batch": due.BATCH, "after": "", "tenants": due.TENANTS}).all()

    with database.transaction() as tx:
        plans = plans_of(tx, lambda: look(tx), monkeypatch)
        assert read_whole(tx, plans) == set()
    return rows_looked_at(plans)
