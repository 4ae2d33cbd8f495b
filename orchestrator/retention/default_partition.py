"""Finds misplaced rows in the default partitions, and moves them to a partition of their month.

A row goes to a default partition when its month has no partition: the tick did not run for months, or a clock
was wrong. Such a row works like any other, but it is not dropped with its month. So it is moved when its
month gets a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.store.database import Transaction

# Moving rows locks the tables for everyone: the tick moves at most this many, `pipeweave db migrate` any
# number.
MOVED_AT_ONCE = 10_000

# Months looked for in a default partition; a wrong clock makes ids of a few.
_MOST_MONTHS = 240


@dataclass(frozen=True, slots=True)
class MisplacedRows:
    """The number of rows of one month in the default partition of one table (`parent`)."""

    month: Month
    parent: str
    rows: int


def key_column(parent: str) -> str:
    """The column by which a history table is partitioned."""
    return "id" if parent == "runs" else "run_id"


_FIRST = "SELECT {key} FROM {parent}_default WHERE {key} >= :low ORDER BY {key} LIMIT 1"


def misplaced_months(tx: Transaction, parents: Iterable[str]) -> list[Month]:
    """The months whose rows are in the default partitions; each costs one index look-up per table."""
    return sorted({month for parent in parents for month in _months(tx, parent)})


def _months(tx: Transaction, parent: str) -> list[Month]:
    months: list[Month] = []
    statement = _FIRST.format(key=key_column(parent), parent=parent)
    low = UUID(int=0)
    while len(months) < _MOST_MONTHS:
        first = tx.execute(statement, {"low": low}).scalar_one_or_none()
        # Ids beyond the last possible month all belong to that month: stop instead of finding it again.
        if first is None or (month := Month.of_id(first)) in months:
            break
        months.append(month)
        low = month.next.first_id
    return months


_COUNT = """
SELECT count(*) FROM (SELECT 1 FROM {parent}_default WHERE {key} >= :low AND {key} < :high LIMIT :most) AS s
"""


def count_misplaced(tx: Transaction, parents: Sequence[str], most: int = 1_000_000) -> list[MisplacedRows]:
    """Count the rows of each month in each default partition; each count ends at `most`."""
    counts = [
        MisplacedRows(month, parent, _count(tx, parent, month, most))
        for month in misplaced_months(tx, parents)
        for parent in parents
    ]
    return [each for each in counts if each.rows]


def _count(tx: Transaction, parent: str, month: Month, most: int) -> int:
    statement = _COUNT.format(key=key_column(parent), parent=parent)
    return int(tx.execute(statement, {**_span(month), "most": most}).scalar_one())


def _span(month: Month) -> dict[str, UUID]:
    return {"low": month.first_id, "high": month.next.first_id}


# --- moving rows ------------------------------------------------------------------------------------------


def lock_tables(tx: Transaction, parents: Sequence[str]) -> None:
    """Lock these tables, ACCESS EXCLUSIVE and without their partitions, until the transaction ends."""
    tx.execute(f"LOCK TABLE {', '.join(f'ONLY {each}' for each in parents)} IN ACCESS EXCLUSIVE MODE")


_ACTIVE = "SELECT 1 FROM runs WHERE id >= :low AND id < :high AND finished_at IS NULL LIMIT 1"


def reason_not_to_move(tx: Transaction, month: Month, parents: Sequence[str], most: int | None) -> str | None:
    """Why a month's rows cannot be moved now; None when they can be moved. Call it after `lock_tables`.

    Rows of an active run are never moved: a statement that waited for the lock may still use its older
    snapshot, in which a moved row is in neither table, and would take the run for finished.
    """
    if tx.execute(_ACTIVE, _span(month)).first() is not None:
        return "a run of the month is active"
    if most is None:
        return None
    total = sum(_count(tx, each, month, most + 1) for each in parents)
    return f"more than {most} rows would have to be moved" if total > most else None


_MOVE = """
WITH moved AS (DELETE FROM {parent}_default WHERE {key} >= :low AND {key} < :high RETURNING *)
INSERT INTO {name} SELECT * FROM moved
"""


def move_rows(tx: Transaction, parent: str, month: Month, bounds: str, storage: str) -> None:
    """Create a month's partition of a table, and move the month's rows there from the default partition.

    Args:
        bounds: the FOR VALUES clause of the partition.
        storage: the WITH clause of the partition; may be empty.
    """
    name = month.table(parent)
    tx.execute(f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL) {storage}")
    tx.execute(_MOVE.format(parent=parent, key=key_column(parent), name=name), _span(month))
    tx.execute(f"ALTER TABLE {parent} ATTACH PARTITION {name} {bounds}")
