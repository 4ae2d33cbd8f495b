"""Counts the active runs of a tenant with a limit, and the free run slots.

A run slot is an active row, never a counter that could leak. A quiet run, of which nothing works, holds none.
A transaction that assigns slots, or starts runs with keys (run_keys.py), locks the tenant's row: of two such
transactions the second sees the runs that the first started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.states import ADMITTED_RUN, sql_in
from pipeweave.orchestrator.queueing import run_keys
from pipeweave.orchestrator.store.database import Transaction

# SQL: the number of active runs, and of pending runs, of the tenant `n`.
ACTIVE = f"""(SELECT count(*) FROM runs AS r WHERE r.tenant_id = n.id AND r.pipeline_id IS NOT NULL
    AND r.status IN {sql_in(ADMITTED_RUN)} AND r.quiet_since IS NULL AND r.parent_run_id IS NULL)"""
WAITING = f"(SELECT count(*) FROM runs AS r WHERE r.tenant_id = n.id AND {run_keys.WAITS})"
_LOCK = "SELECT 1 FROM tenants AS n WHERE n.id = :tenant FOR NO KEY UPDATE"
_SLOTS = f"""
SELECT n.max_active_runs AS most, {ACTIVE} AS active, {WAITING} AS waiting
FROM tenants AS n WHERE n.id = :tenant
"""
# A separate statement after the lock, so that it sees the commit of the lock's last holder. What waits for
# its key does not wait for a slot. Nothing is counted that is not asked for.
_FREE = f"""
SELECT n.max_active_runs AS most,
    CASE WHEN n.max_active_runs IS NULL THEN 0 ELSE {ACTIVE} END AS active,
    (SELECT count(*) FROM {run_keys.front("n.id", "coalesce(n.max_active_runs, 1)")} AS f) AS waiting
FROM tenants AS n WHERE n.id = :tenant
"""


@dataclass(frozen=True, slots=True)
class RunSlots:
    """The limit of a tenant's active runs, and its runs.

    Args:
        most: runs that may be active at once; None for no limit.
        active: active runs.
        waiting: pending runs.
    """

    most: int | None
    active: int
    waiting: int


def slots_of(tx: Transaction, tenant: str) -> RunSlots:
    """The limit and the runs of a tenant as they are now."""
    return _read(tx, _SLOTS, tenant)


def _read(tx: Transaction, statement: str, tenant: str) -> RunSlots:
    row: Any = tx.execute(statement, {"tenant": tenant}).one_or_none()
    return RunSlots(None, 0, 0) if row is None else RunSlots(row.most, row.active, row.waiting)


_POSITION = """
SELECT count(*) FROM runs AS r WHERE r.tenant_id = :tenant AND r.status = 'pending' AND r.id <= :id
"""


def position(tx: Transaction, tenant: str, run_id: UUID) -> int:
    """The place in line, from 1, of a pending run."""
    return int(tx.execute(_POSITION, {"tenant": tenant, "id": run_id}).scalar_one())


def places(tx: Transaction, tenant: str) -> int | None:
    """Lock the tenant and return how many new runs may start at once; None without a limit.

    The number holds until the transaction ends. Pending runs come first: their places are not counted.
    """
    slots = lock_tenant(tx, tenant)
    return None if slots.most is None else max(0, slots.most - slots.active - slots.waiting)


def lock_tenant(tx: Transaction, tenant: str) -> RunSlots:
    """Lock the tenant's row, which guards its run slots and the keys of its runs.

    Returns:
        Its limit, and its runs: of those that wait, the ones whose keys have room, and no more than a limit
        could let start; without a limit nothing is active.
    """
    lock(tx, tenant)
    return _read(tx, _FREE, tenant)


def lock(tx: Transaction, tenant: str) -> None:
    """Lock the tenant's row."""
    tx.hold()
    tx.execute(_LOCK, {"tenant": tenant})
