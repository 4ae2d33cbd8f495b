"""Reads the start conditions of a tenant's new runs: pauses, and what restrains the tenant as a whole.

They decide the statuses of the rows of a new run, so the writer must know them first. Nearly always there are
none, so a writer uses the conditions that its process read last, and the statement that writes checks that
they still hold. That saves a round trip, and nothing can change between the look and the write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from pipeweave.orchestrator.queueing import deployment_limit
from pipeweave.orchestrator.state.pause_sql import ALL_TASKS, paused_tasks
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction


class Restraint(IntFlag):
    """What restrains a tenant: run slots, quotas of runs, that it is disabled, or a limit of all tenants."""

    NONE = 0
    SLOTS = 1
    QUOTAS = 2
    DISABLED = 4
    DEPLOYMENT = 8


@dataclass(frozen=True, slots=True)
class Holds:
    """The start conditions of a tenant.

    Args:
        pauses: ids of paused tasks in their order; ALL_TASKS for the whole tenant.
        restraints: of the tenant.
    """

    pauses: tuple[str, ...] = ()
    restraints: Restraint = Restraint.NONE

    @property
    def is_limited(self) -> bool:
        """Whether the number of its active runs is limited."""
        return Restraint.SLOTS in self.restraints

    @property
    def has_quotas(self) -> bool:
        """Whether new runs count for a quota."""
        return Restraint.QUOTAS in self.restraints

    @property
    def is_disabled(self) -> bool:
        """Whether no run of the tenant begins."""
        return Restraint.DISABLED in self.restraints

    @property
    def is_deployment_limited(self) -> bool:
        """Whether each new task run has to wait for a place in the deployment."""
        return Restraint.DEPLOYMENT in self.restraints

    def is_paused(self, task_id: str) -> bool:
        """Whether the task or the whole tenant is paused."""
        return ALL_TASKS in self.pauses or task_id in self.pauses

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of AS_EXPECTED."""
        return {"pauses": list(self.pauses), "restraints": int(self.restraints)}


_PAUSES = paused_tasks(":tenant")
# One look at one row, whatever may restrain a tenant, and one at that of the deployment.
_RESTRAINTS = f"""coalesce((SELECT CASE WHEN n.max_active_runs IS NULL THEN 0 ELSE {Restraint.SLOTS:d} END
    + CASE WHEN coalesce(n.runs_per_day, n.open_task_runs, n.stored_bytes) IS NULL THEN 0
        ELSE {Restraint.QUOTAS:d} END
    + CASE WHEN n.disabled_at IS NULL THEN 0 ELSE {Restraint.DISABLED:d} END
    + CASE WHEN {deployment_limit.IS_SET} THEN {Restraint.DEPLOYMENT:d} ELSE 0 END
    FROM tenants AS n WHERE n.id = :tenant), {Restraint.NONE:d})"""
# SQL: whether the start conditions are those that the writer expects.
AS_EXPECTED = f"{_PAUSES} = CAST(:pauses AS text[]) AND {_RESTRAINTS} = :restraints"
_LOOK = f"SELECT {_PAUSES} AS pauses, {_RESTRAINTS} AS restraints"

NO_HOLDS = Holds()
# By tenant. One entry is a few names; only tenants that a process triggers runs for are in it.
CONDITIONS = CacheSpec[str, Holds]("start conditions", 1_000)


def expected(tx: Transaction, tenant: str) -> Holds:
    """The start conditions that this process read last; none, if it never read them."""
    return tx.cache(CONDITIONS).get(tenant) or NO_HOLDS


def look(tx: Transaction, tenant: str) -> Holds:
    """Read the start conditions of a tenant, and remember them."""
    row: Any = tx.execute(_LOOK, {"tenant": tenant}).one()
    holds = Holds(tuple(row.pauses), Restraint(row.restraints))
    tx.cache_after_commit(CONDITIONS, tenant, holds)
    return holds
