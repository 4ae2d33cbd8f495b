"""The chore of the tick that deletes tenants, some thousand rows at a time.

    cancel    the open runs, so that services and workers hear of it
    runs      page by page: what belongs to a run, then the run
    rest      table by table: definitions, fires, statistics
    end       the tokens and the tenant itself, in one transaction

Each statement commits by itself and looks for what is there, so that whoever dies leaves a smaller tenant,
and whoever goes on needs no place. Objects are left to the sweep: no row refers to them any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.states import OPEN_RUN, sql_in
from pipeweave.orchestrator.retention.tenant_rows import OF_RUNS, OF_TENANT
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation, Unfinished

log = logging.getLogger(__name__)

# Runs that are cancelled and deleted together, and rows that one statement deletes.
RUNS, ROWS = 50, 5_000
# A tick deletes for about this long (s).
BUDGET_S = 1.0

_OPEN = "FROM tenant_deletions AS d WHERE d.finished_at IS NULL"
# SQL: whether a tenant is to be deleted.
IS_DUE = f"EXISTS (SELECT 1 {_OPEN})"
_NEXT = f"SELECT d.tenant_id {_OPEN} ORDER BY d.requested_at, d.tenant_id"


def run_once(database: Database) -> int:
    """Go on with the deletions that are asked for, for about BUDGET_S.

    Returns:
        How many rows were deleted.

    Raises:
        PartlyFailed: some tenants could not be deleted further; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        tenants: list[str] = list(tx.execute(_NEXT).scalars())
    isolation, until = Isolation(database), time.monotonic() + BUDGET_S
    deleted = 0
    for each in tenants:
        deleted += isolation.run(lambda each=each: _delete(database, each, until), tenant=each)  # type: ignore[misc]
        if time.monotonic() >= until:
            break
    return isolation.finish(Unfinished(deleted) if tenants else deleted)


def _delete(database: Database, tenant: str, until: float) -> int:
    """Delete rows of a tenant until time is over or none is left; how many."""
    total = 0
    while True:
        deleted = (
            _cancel_open(database, tenant) or _delete_runs(database, tenant) or _delete_rest(database, tenant)
        )
        total += deleted
        if not deleted:
            database.run(lambda tx: _end(tx, tenant))
            return total
        if time.monotonic() >= until:
            return total


_OPEN_RUNS = f"""
SELECT r.id FROM runs AS r WHERE r.tenant_id = :tenant AND r.status IN {sql_in(OPEN_RUN)}
ORDER BY r.id LIMIT :most
"""


def _cancel_open(database: Database, tenant: str) -> int:
    """Cancel a page of open runs; 0 when none is open, or none can be cancelled."""
    with database.statements() as tx:
        run_ids: list[UUID] = list(tx.execute(_OPEN_RUNS, {"tenant": tenant, "most": RUNS}).scalars())
    reason = "its tenant is being deleted"
    return sum(
        database.run(lambda tx, each=each: triggering.cancel_open(tx, tenant, each, reason, now=True))  # type: ignore[misc]
        for each in run_ids
    )


_RUNS = "SELECT r.id FROM runs AS r WHERE r.tenant_id = :tenant LIMIT :most"
# The place of a row (ctid) is that within its partition.
_DELETE_OF_RUNS = """
DELETE FROM {table} AS t USING (
    SELECT o.tableoid AS part, o.ctid AS place FROM {table} AS o
    WHERE o.run_id = ANY(CAST(:runs AS uuid[])) LIMIT :most) AS o
WHERE t.tableoid = o.part AND t.ctid = o.place AND t.run_id = ANY(CAST(:runs AS uuid[]))
"""
_DELETE_RUNS = "DELETE FROM runs AS r WHERE r.id = ANY(CAST(:runs AS uuid[])) AND r.tenant_id = :tenant"


def _delete_runs(database: Database, tenant: str) -> int:
    """Delete a page of runs with what belongs to them; the number of rows, 0 when no run is left."""
    with database.statements() as tx:
        run_ids: list[UUID] = list(tx.execute(_RUNS, {"tenant": tenant, "most": RUNS}).scalars())
        deleted = sum(_delete_of_runs(tx, table, run_ids) for table in OF_RUNS) if run_ids else 0
        if run_ids:
            number = tx.execute(_DELETE_RUNS, {"runs": run_ids, "tenant": tenant}).rowcount
            deleted += number
            _count(tx, tenant, number, deleted)
    return deleted


def _delete_of_runs(tx: Transaction, table: str, run_ids: Sequence[UUID]) -> int:
    total = 0
    while True:
        deleted = tx.execute(_DELETE_OF_RUNS.format(table=table), {"runs": run_ids, "most": ROWS}).rowcount
        total += deleted
        if deleted < ROWS:
            return total


_DELETE_OF_TENANT = """
DELETE FROM {table} AS t WHERE t.tenant_id = :tenant AND t.ctid = ANY(ARRAY(
    SELECT o.ctid FROM {table} AS o WHERE o.tenant_id = :tenant LIMIT :most))
"""
_COUNT = """
UPDATE tenant_deletions SET deleted_runs = deleted_runs + :runs, deleted_rows = deleted_rows + :rows
WHERE tenant_id = :tenant AND finished_at IS NULL
"""


def _delete_rest(database: Database, tenant: str) -> int:
    """Delete rows of the first table that has some; the number, 0 when none is left."""
    with database.statements() as tx:
        for table in OF_TENANT:
            statement = _DELETE_OF_TENANT.format(table=table)
            deleted = tx.execute(statement, {"tenant": tenant, "most": ROWS}).rowcount
            if deleted:
                _count(tx, tenant, 0, deleted)
                return deleted
    return 0


def _count(tx: Transaction, tenant: str, runs: int, rows: int) -> None:
    tx.execute(_COUNT, {"tenant": tenant, "runs": runs, "rows": rows})


_OWN_TOKENS = "DELETE FROM access_tokens AS t WHERE t.tenants = ARRAY[CAST(:tenant AS text)]"
_SHARED_TOKENS = """
UPDATE access_tokens SET tenants = array_remove(tenants, CAST(:tenant AS text))
WHERE CAST(:tenant AS text) = ANY(tenants)
"""
_TENANT = "DELETE FROM tenants AS n WHERE n.id = :tenant"
_FINISH = """
UPDATE tenant_deletions SET finished_at = :now, deleted_rows = deleted_rows + 1
WHERE tenant_id = :tenant AND finished_at IS NULL
"""


def _end(tx: Transaction, tenant: str) -> None:
    """Delete the tenant itself, and what its tokens allow. Somebody may have added a row meanwhile: then
    PostgreSQL refuses, and the next tick begins again.
    """
    key: dict[str, Any] = {"tenant": tenant}
    tx.execute(_TENANT, key)
    tx.execute(_OWN_TOKENS, key)
    tx.execute(_SHARED_TOKENS, key)
    tx.execute(_FINISH, key | {"now": tx.now})
    log.info("tenant.deleted", extra=key)
