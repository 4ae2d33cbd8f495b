"""A tenant is deleted as a whole, whoever dies meanwhile; the others and the audit stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.factories import a_worker
from support.killed_ticks import DELETION, kill_at
from support.run_driver import RunDriver
from support.uploads import an_upload

from pipeweave.errors import Conflict, NotFound, TenantDisabled
from pipeweave.orchestrator.queueing import tenant_deletions, tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.reading import tenant_list
from pipeweave.orchestrator.retention import tenant_deletion, tenant_rows
from pipeweave.orchestrator.security import access_tokens, sessions
from pipeweave.orchestrator.security.access_tokens import READ
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Database, Transaction


@pytest.fixture
def driver(fresh_database: Database) -> Iterator[RunDriver]:
    yield filled(fresh_database)


def filled(database: Database) -> RunDriver:
    """A tenant with something of most kinds."""
    driver = RunDriver(database)
    driver.store({"a": [], "b": ["a"]}, id="two")
    ended, _, _ = (driver.trigger("two", run_token=f"t{each}") for each in range(3))
    driver.finish(ended, "a")
    driver.finish(ended, "b")
    an_upload(database, driver.tenant)
    with database.transaction() as tx:
        storing.put(tx, driver.tenant, "nightly", ScheduleSpec("two", cron="0 3 * * *"))
        tenant_limits.set_limits(tx, driver.tenant, TenantLimits(runs_per_day=1_000))
    return driver


def ask(driver: RunDriver) -> None:
    driver.database.run(lambda tx: tenant_deletions.request(tx, driver.tenant, by="root"))


def finish(driver: RunDriver) -> int:
    """Tick until the tenant is gone; the number of ticks."""
    for tick in range(1, 200):
        tenant_deletion.run_once(driver.database)
        if rows_of(driver, "tenants", "id") == 0:
            return tick
    raise AssertionError("the tenant is still there")


def rows_of(driver: RunDriver, table: str, column: str = "tenant_id") -> int:
    return int(driver.rows(f"SELECT count(*) FROM {table} WHERE {column} = :id", id=driver.tenant)[0][0])


def left(driver: RunDriver) -> dict[str, int]:
    counts = {table: rows_of(driver, table) for table in (*tenant_rows.OF_TENANT, "runs", "task_runs")}
    return {table: number for table, number in counts.items() if number}


def test_nothing_of_a_deleted_tenant_is_left_and_another_one_keeps_all(driver: RunDriver) -> None:
    other = filled(driver.database)
    kept = left(other)
    ask(driver)
    finish(driver)
    assert left(driver) == {}
    assert left(other) == kept
    [orphans] = driver.rows(
        "SELECT count(*) FROM events AS e WHERE NOT EXISTS (SELECT 1 FROM runs WHERE id = e.run_id)"
    )
    assert orphans[0] == 0
    with driver.database.transaction() as tx:
        shown = tenant_list.deletion(tx, driver.tenant)
    assert shown["deletedRuns"] == 3
    assert shown["deletedRows"] > 10
    assert shown["finishedAt"] is not None


def test_whoever_dies_leaves_the_rest_to_the_next(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement is a place where a process may die: all of them are tried, one after the other."""
    monkeypatch.setattr(tenant_deletion, "RUNS", 1)
    monkeypatch.setattr(tenant_deletion, "ROWS", 1)
    ask(driver)
    execute, allowed, deaths = Transaction.execute, [1], 0

    class Died(BaseException):
        pass

    def dying(self: Transaction, statement: str, *rest: object, **more: object) -> object:
        if "DELETE FROM" in statement:
            allowed[0] -= 1
            if allowed[0] < 0:
                raise Died
        return execute(self, statement, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "execute", dying)
    while rows_of(driver, "tenants", "id"):
        allowed[0] = deaths % 60 + 1
        try:
            tenant_deletion.run_once(driver.database)
        except Died:
            deaths += 1
        assert deaths < 500
    assert deaths > 10
    assert left(driver) == {}


def test_a_deletion_that_is_killed_goes_on_with_what_is_left(driver: RunDriver) -> None:
    ids = [row.id for row in driver.rows("SELECT id FROM runs WHERE tenant_id = :id", id=driver.tenant)]
    ask(driver)
    for run_id in ids:
        if driver.rows("SELECT 1 FROM runs WHERE id = :id", id=run_id):
            kill_at(driver.database, "", run_id, DELETION)
    assert left(driver) != {}
    finish(driver)
    assert left(driver) == {}


def test_open_runs_are_cancelled_before_their_rows_go(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_deletion, "BUDGET_S", 0.0)
    ask(driver)
    tenant_deletion.run_once(driver.database)
    statuses = {
        row.status for row in driver.rows("SELECT status FROM runs WHERE tenant_id = :id", id=driver.tenant)
    }
    assert statuses == {"completed", "cancelled"}


def test_tokens_of_the_tenant_alone_go_with_their_sessions_and_others_lose_it(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        own, shared = (
            access_tokens.create_token(tx, name="x", tenants=tenants, scopes=(READ,))
            for tenants in ((driver.tenant,), (driver.tenant, "elsewhere"))
        )
        session = sessions.begin_by_token(tx, own)
    assert session is not None
    ask(driver)
    finish(driver)
    with driver.database.transaction() as tx:
        assert access_tokens.verify(tx, own) is None
        assert sessions.verify_session(tx, session.secret) is None
        left_access = access_tokens.verify(tx, shared)
    assert left_access is not None
    assert left_access.tenants == ("elsewhere",)


def test_a_tenant_that_is_being_deleted_begins_nothing_and_is_not_enabled_again(driver: RunDriver) -> None:
    ask(driver)
    with pytest.raises(TenantDisabled):
        driver.trigger("two")
    with pytest.raises(Conflict, match="being deleted"):
        driver.database.run(lambda tx: tenant_limits.enable(tx, driver.tenant))


def test_the_name_can_be_used_again_and_deleted_again(driver: RunDriver) -> None:
    for _ in range(2):
        ask(driver)
        finish(driver)
        RunDriver(driver.database, driver.tenant).store({"a": []}, id="one")
        driver.trigger("one")
        assert rows_of(driver, "runs") == 1


def test_a_tenant_with_live_workers_is_not_deleted(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        a_worker(tx, driver.tenant, "noop", name="busy")
    with pytest.raises(Conflict, match="busy"):
        ask(driver)
    with pytest.raises(NotFound), driver.database.transaction() as tx:
        tenant_list.deletion(tx, driver.tenant)
    assert driver.rows("SELECT disabled_at FROM tenants WHERE id = :id", id=driver.tenant)[0][0] is None


def test_every_table_of_the_schema_is_known_to_the_deletion(database: Database) -> None:
    """A new table stands in one of the three lists; those with a tenant or a run are not among the last."""
    with database.transaction() as tx:
        columns = tx.execute(
            """SELECT c.relname AS name, c.relkind,
                coalesce(bool_or(a.attname = 'tenant_id'), false) AS has_tenant
            FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            GROUP BY c.relname, c.relkind"""
        ).all()
    known = {*tenant_rows.OF_RUNS, *tenant_rows.OF_TENANT, *tenant_rows.OF_NONE, "runs", "tenants"}
    assert {row.name for row in columns} == known
    assert {row.name for row in columns if row.has_tenant} - {
        *tenant_rows.OF_RUNS,
        *tenant_rows.OF_TENANT,
    } == {
        "runs",
        "audit",
        "tenant_deletions",
    }
    assert {row.name for row in columns if row.relkind == "p"} <= {*tenant_rows.OF_RUNS, "runs"}


def test_what_refers_to_a_table_is_deleted_before_it(database: Database) -> None:
    order = [*tenant_rows.OF_RUNS, "runs", *tenant_rows.OF_TENANT, "tenants"]
    with database.transaction() as tx:
        references = tx.execute(
            """SELECT CAST(CAST(c.conrelid AS regclass) AS text) AS referring,
                CAST(CAST(c.confrelid AS regclass) AS text) AS referred
            FROM pg_constraint AS c
            WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confdeltype <> 'c'"""
        ).all()
    early = [
        (row.referring, row.referred)
        for row in references
        if row.referred in order and order.index(row.referring) >= order.index(row.referred)
    ]
    assert references
    assert early == []
