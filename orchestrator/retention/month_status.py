"""The months of history there are, and what goes on in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, RunStatus, sql_in
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store.database import Transaction

# Enough to look at; their number is not what matters.
ACTIVE_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MonthOnDisk:
    """A month as the catalogue has it: rows as estimated, bytes on disk, and whether it is on its way out."""

    month: Month
    rows: dict[str, int] = field(default_factory=dict)
    size: int = 0
    is_leaving: bool = False


def months_on_disk(tx: Transaction) -> list[MonthOnDisk]:
    """The months that have partitions, oldest first."""
    found: dict[Month, list[partitions.Partition]] = {}
    for each in partitions.list_partitions(tx):
        if each.month is not None:
            found.setdefault(each.month, []).append(each)
    return [
        MonthOnDisk(
            month,
            {each.parent: each.rows for each in parts},
            sum(each.size for each in parts),
            not all(each.is_attached for each in parts),
        )
        for month, parts in sorted(found.items())
    ]


# Both halves read an index: what is over costs nothing.
_ACTIVE = f"""
SELECT id FROM {{runs}} WHERE status IN {sql_in(ACTIVE_RUN)}
UNION ALL
SELECT r.id FROM tenants AS t
    CROSS JOIN LATERAL (
        SELECT id FROM {{runs}} WHERE tenant_id = t.id AND status = '{RunStatus.PAUSED}' LIMIT :most) AS r
LIMIT :most
"""


def active_runs(tx: Transaction, month: Month, most: int = ACTIVE_SHOWN) -> list[UUID]:
    """Runs of a month that are not final, up to `most`; none of a month without a partition."""
    if not partitions.exists(tx, month.table("runs")):
        return []
    return list(tx.execute(_ACTIVE.format(runs=month.table("runs")), {"most": most}).scalars())
