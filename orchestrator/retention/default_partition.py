"""Rows in the default partitions: of ids that were made while their month had no partition.

That happens when the tick stood still for months, or when a clock was wrong. Such a row works like any other;
only, it cannot be dropped with its month. So it is moved when its month gets a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.store.database import Transaction

# While rows are moved, everyone waits: the tick moves a few, `pipeweave db migrate` any number.
MOVED_AT_ONCE = 10_000

# A wrong clock makes ids of a few months, not of all.
_MOST_MONTHS = 240


@dataclass(frozen=True, slots=True)
class MisplacedRows:
    """What a default partition holds of one month."""

    month: Month
    parent: str
    rows: int


def key_column(parent: str) -> str:
    """The column that a history table is partitioned by."""
    return "id" if parent == "runs" else "run_id"


_FIRST = "SELECT {key} FROM {parent}_default WHERE {key} >= :low ORDER BY {key} LIMIT 1"


def misplaced_months(tx: Transaction, parents: Iterable[str]) -> list[Month]:
    """The months that the default partitions hold rows of: one look into an index for each."""
    return sorted({month for parent in parents for month in _months(tx, parent)})


def _months(tx: Transaction, parent: str) -> list[Month]:
    found: list[Month] = []
    statement = _FIRST.format(key=key_column(parent), parent=parent)
    low = UUID(int=0)
    while len(found) < _MOST_MONTHS:
        first = tx.execute(statement, {"low": low}).scalar_one_or_none()
        # What lies beyond the last month there is would be found again and again.
        if first is None or (month := Month.of_id(first)) in found:
            break
        found.append(month)
        low = month.next.first_id
    return found


_COUNT = """
SELECT count(*) FROM (SELECT 1 FROM {parent}_default WHERE {key} >= :low AND {key} < :high LIMIT :most) AS s
"""


def count_misplaced(tx: Transaction, parents: Sequence[str], most: int = 1_000_000) -> list[MisplacedRows]:
    """How many rows of each month each default partition holds, up to `most`."""
    found = [
        MisplacedRows(month, parent, _count(tx, parent, month, most))
        for month in misplaced_months(tx, parents)
        for parent in parents
    ]
    return [each for each in found if each.rows]


def _count(tx: Transaction, parent: str, month: Month, most: int) -> int:
    statement = _COUNT.format(key=key_column(parent), parent=parent)
    return int(tx.execute(statement, {**_span(month), "most": most}).scalar_one())


def _span(month: Month) -> dict[str, UUID]:
    return {"low": month.first_id, "high": month.next.first_id}


# --- moving them ------------------------------------------------------------------------------------------


def lock_tables(tx: Transaction, parents: Sequence[str]) -> None:
    """Keep everyone else out of these tables until the transaction ends."""
    tx.execute(f"LOCK TABLE {', '.join(f'ONLY {each}' for each in parents)} IN ACCESS EXCLUSIVE MODE")


_ACTIVE = "SELECT 1 FROM runs WHERE id >= :low AND id < :high AND finished_at IS NULL LIMIT 1"


def reason_not_to_move(tx: Transaction, month: Month, parents: Sequence[str], most: int | None) -> str | None:
    """Why a month's rows cannot be moved now; None when they can. Called under `lock_tables`.

    A statement that waited for the lock may still see the tables as they were before: it would find a moved
    row in neither place, and take a run that goes on for one that is over.
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
    """Make a month's partition of a table from what its default partition holds of it."""
    name = month.table(parent)
    tx.execute(f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL) {storage}")
    tx.execute(_MOVE.format(parent=parent, key=key_column(parent), name=name), _span(month))
    tx.execute(f"ALTER TABLE {parent} ATTACH PARTITION {name} {bounds}")
