"""Reads the start conditions of a tenant's new runs: pauses, and a limit of its active runs.

They decide the statuses of the rows of a new run, so the writer must know them first. Nearly always there are
none, so a writer uses the conditions that its process read last, and the statement that writes checks that
they still hold. That saves a round trip, and nothing can change between the look and the write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.state.pause_sql import ALL_TASKS, paused_tasks
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Holds:
    """The start conditions of a tenant.

    Args:
        pauses: ids of paused tasks in their order; ALL_TASKS for the whole tenant.
        is_limited: whether the number of its active runs is limited.
    """

    pauses: tuple[str, ...] = ()
    is_limited: bool = False

    def is_paused(self, task_id: str) -> bool:
        """Whether the task or the whole tenant is paused."""
        return ALL_TASKS in self.pauses or task_id in self.pauses

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of AS_EXPECTED."""
        return {"pauses": list(self.pauses), "is_limited": self.is_limited}


_PAUSES = paused_tasks(":tenant")
_IS_LIMITED = "EXISTS (SELECT 1 FROM tenants AS n WHERE n.id = :tenant AND n.max_active_runs IS NOT NULL)"
# SQL: whether the start conditions are those that the writer expects.
AS_EXPECTED = f"{_PAUSES} = CAST(:pauses AS text[]) AND {_IS_LIMITED} = :is_limited"
_LOOK = f"SELECT {_PAUSES} AS pauses, {_IS_LIMITED} AS is_limited"

# By tenant. One entry is a few names; only tenants that a process triggers runs for are in it.
CONDITIONS = CacheSpec[str, Holds]("start conditions", 1_000)


def expected(tx: Transaction, tenant: str) -> Holds:
    """The start conditions that this process read last; none, if it never read them."""
    return tx.cache(CONDITIONS).get(tenant) or Holds()


def look(tx: Transaction, tenant: str) -> Holds:
    """Read the start conditions of a tenant, and remember them."""
    row: Any = tx.execute(_LOOK, {"tenant": tenant}).one()
    holds = Holds(tuple(row.pauses), row.is_limited)
    tx.cache_after_commit(CONDITIONS, tenant, holds)
    return holds
