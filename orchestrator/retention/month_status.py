"""Reads which months of history are on disk, and which runs of a month are active."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, RunStatus, sql_in
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store.database import Transaction

# A few active runs suffice to say why a month is kept.
ACTIVE_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MonthOnDisk:
    """A month with partitions: estimated rows by table, bytes on disk, and whether some are detached already.

    `is_leaving` means that dropping the month has begun.
    """

    month: Month
    rows: dict[str, int] = field(default_factory=dict)
    size: int = 0
    is_leaving: bool = False


def months_on_disk(tx: Transaction) -> list[MonthOnDisk]:
    """The months that have partitions, attached or detached, oldest first."""
    by_month: dict[Month, list[partitions.Partition]] = {}
    for each in partitions.list_partitions(tx):
        if each.month is not None:
            by_month.setdefault(each.month, []).append(each)
    return [
        MonthOnDisk(
            month,
            {each.parent: each.rows for each in parts},
            sum(each.size for each in parts),
            not all(each.is_attached for each in parts),
        )
        for month, parts in sorted(by_month.items())
    ]


# A table with more rows than this is not counted: PostgreSQL's estimate is shown.
MOST_COUNTED = 20_000

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT :most) AS n"


def count_rows(tx: Transaction, on_disk: MonthOnDisk) -> dict[str, tuple[int, bool]]:
    """The rows of a month by table, and whether that is exact; large tables are estimated, not counted."""
    counts = {}
    for parent, estimate in on_disk.rows.items():
        statement = _COUNT.format(table=on_disk.month.table(parent))
        number = int(tx.execute(statement, {"most": MOST_COUNTED + 1}).scalar_one())
        counts[parent] = (number, True) if number <= MOST_COUNTED else (max(number, estimate), False)
    return counts


# Both halves read an index of open runs: finished runs cost nothing.
_ACTIVE = f"""
SELECT id FROM {{runs}} WHERE status IN {sql_in(ACTIVE_RUN)}
UNION ALL
SELECT r.id FROM tenants AS t
    CROSS JOIN LATERAL (
        SELECT id FROM {{runs}} WHERE tenant_id = t.id AND status = '{RunStatus.PAUSED}' LIMIT :most) AS r
LIMIT :most
"""


def active_runs(tx: Transaction, month: Month, most: int = ACTIVE_SHOWN) -> list[UUID]:
    """Runs of a month that are not final, up to `most`; an empty list for a month without a partition."""
    if not partitions.exists(tx, month.table("runs")):
        return []
    return list(tx.execute(_ACTIVE.format(runs=month.table("runs")), {"most": most}).scalars())
