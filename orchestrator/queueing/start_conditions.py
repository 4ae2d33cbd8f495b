"""What keeps the new runs of a tenant from starting at once: pauses, and a limit of its active runs.

Whoever writes runs has to know it first, for it decides the statuses of their rows. Nearly always it is
nothing, so a process goes by what it saw last, and the statement that writes finds out whether that still
holds: then a look was spared, and nothing slips in between a look and the write.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.state.pause_sql import ALL_TASKS, paused_tasks
from pipeweave.orchestrator.store.database import Transaction

REMEMBERED_TENANTS = 1_000


@dataclass(frozen=True, slots=True)
class Holds:
    """Paused tasks ('' for all of them), and whether the tenant's active runs are limited."""

    pauses: tuple[str, ...] = ()
    is_limited: bool = False

    def is_paused(self, task_id: str) -> bool:
        """Whether a task is paused, itself or with its tenant."""
        return ALL_TASKS in self.pauses or task_id in self.pauses

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of AS_EXPECTED."""
        return {"pauses": list(self.pauses), "is_limited": self.is_limited}


_PAUSES = paused_tasks(":tenant")
_IS_LIMITED = "EXISTS (SELECT 1 FROM tenants AS n WHERE n.id = :tenant AND n.max_active_runs IS NOT NULL)"
# SQL: whether all is as the writer expects.
AS_EXPECTED = f"{_PAUSES} = CAST(:pauses AS text[]) AND {_IS_LIMITED} = :is_limited"
_LOOK = f"SELECT {_PAUSES} AS pauses, {_IS_LIMITED} AS is_limited"
_seen: OrderedDict[tuple[str, str], Holds] = OrderedDict()


def expected(tx: Transaction, tenant: str) -> Holds:
    """What this process saw last; nothing, if it never looked."""
    return _seen.get((tx.database, tenant), Holds())


def look(tx: Transaction, tenant: str) -> Holds:
    """What there is now."""
    row: Any = tx.execute(_LOOK, {"tenant": tenant}).one()
    found = Holds(tuple(row.pauses), row.is_limited)
    _seen[tx.database, tenant] = found
    if len(_seen) > REMEMBERED_TENANTS:
        _seen.popitem(last=False)
    return found
