"""Lists the monthly partitions of the history tables, and creates them ahead of time.

A partition begins at the lowest UUIDv7 of its month, so a run's id tells which partitions hold all its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pipeweave.orchestrator.domain import months
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import default_partition
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.lock_timeout import LockNotAvailable, at_once

log = logging.getLogger(__name__)

PARTITIONED = ("runs", "task_runs", "attempts", "events", "signals")

# Two months ahead: a deployment whose tick did not run for weeks still has a partition to write to.
MONTHS_AHEAD = 2

# A row's status changes two or three times: free space on its page keeps the new row versions on that page.
_STORAGE = {"runs": "WITH (fillfactor = 80)", "task_runs": "WITH (fillfactor = 70)"}


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as PostgreSQL's catalogue describes it.

    Args:
        month: None for the default partition, which holds the ids outside every month's partition.
        is_attached: False once drop_months.py has detached it.
        rows: PostgreSQL's latest estimate.
        size: bytes on disk, indexes included.
    """

    name: str
    parent: str
    month: Month | None
    is_attached: bool
    rows: int
    size: int


# The size is NULL for a partition that was dropped a moment ago.
_LISTED = f"""
SELECT c.relname AS name, c.relispartition AS is_attached, CAST(greatest(c.reltuples, 0) AS bigint) AS rows,
       coalesce(pg_total_relation_size(c.oid), 0) AS size
FROM pg_class AS c
WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid)
  AND c.relname ~ '^({"|".join(PARTITIONED)})_(default|[0-9]{{4}}_[0-9]{{2}})$'
ORDER BY c.relname
"""


def list_partitions(tx: Transaction) -> list[Partition]:
    """Every partition, attached or detached."""
    return [
        Partition(row.name, parent, _month(tail), row.is_attached, row.rows, row.size)
        for row in tx.execute(_LISTED)
        for parent, tail in [_split(row.name)]
    ]


def _split(name: str) -> tuple[str, str]:
    parent = next(each for each in PARTITIONED if name.startswith(f"{each}_"))
    return parent, name.removeprefix(f"{parent}_")


def _month(tail: str) -> Month | None:
    return None if tail == "default" else Month.parse(tail.replace("_", "-"))


# --- creating partitions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MissingPartitions:
    """Partitions of one month that do not exist yet.

    Args:
        month: None for the default partitions.
        parents: the tables that lack a partition.
        has_misplaced_rows: the default partitions hold rows of this month.
    """

    month: Month | None
    parents: tuple[str, ...]
    has_misplaced_rows: bool = False


def ensure(tx: Transaction, now: datetime, months_ahead: int = MONTHS_AHEAD) -> list[str]:
    """Create the missing partitions of this month and the next ones; returns their names.

    A default partition takes the ids outside every month's partition, so that an insert never fails. A month
    with rows there gets its partitions and its rows are moved once none of its runs is active.
    """
    return [name for each in missing(tx, now, months_ahead) for name in _make(tx, each, None)]


def ensure_without_waiting(database: Database, now: datetime) -> list[str]:
    """Do as `ensure` does while the deployment works: one partition per transaction, without waiting for
    locks.

    A partition whose lock is not free now is left to the next call; there is time, because partitions are
    created MONTHS_AHEAD months ahead.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.transaction() as tx:
        wanted = missing(tx, now, MONTHS_AHEAD)
    made: list[str] = []
    for each in _one_by_one(wanted):
        try:
            with at_once(database) as tx:
                made += _make(tx, each, default_partition.MOVED_AT_ONCE)
        except LockNotAvailable:
            log.info("partition.postponed", extra={"month": str(each.month), "tables": each.parents})
    return made


def ensure_month(database: Database, month: Month) -> None:
    """Create the missing partitions of one month, in one transaction that does not wait for locks.

    Raises:
        LockNotAvailable: a table is in use, or the month's misplaced rows cannot be moved now.
    """
    with at_once(database) as tx:
        known = {each.name for each in list_partitions(tx)}
        has_misplaced_rows = month in default_partition.misplaced_months(tx, PARTITIONED)
        for each in _lacking(known, [month], [month] if has_misplaced_rows else []):
            if not _make(tx, each, default_partition.MOVED_AT_ONCE):
                raise LockNotAvailable


def missing(tx: Transaction, now: datetime, months_ahead: int = MONTHS_AHEAD) -> list[MissingPartitions]:
    """The partitions that `ensure` would create: the default partitions first, then the months in order."""
    known = {each.name for each in list_partitions(tx)}
    defaults = [each for each in PARTITIONED if f"{each}_default" not in known]
    if defaults:
        return [
            MissingPartitions(None, tuple(defaults)),
            *_lacking(known, months.ahead(now, months_ahead), ()),
        ]
    due = months.ahead(now, months_ahead)
    misplaced = [each for each in default_partition.misplaced_months(tx, PARTITIONED) if each <= due[-1]]
    return list(_lacking(known, sorted({*due, *misplaced}), misplaced))


def _lacking(
    known: set[str], wanted: Iterable[Month], misplaced: Iterable[Month]
) -> Iterator[MissingPartitions]:
    for month in wanted:
        parents = tuple(each for each in PARTITIONED if month.table(each) not in known)
        if parents:
            yield MissingPartitions(month, parents, month in misplaced)


def _one_by_one(wanted: Iterable[MissingPartitions]) -> Iterator[MissingPartitions]:
    """Split by table, so that no transaction holds one table's lock while it waits for another's: deadlocks.

    A month with misplaced rows is not split, because moving its rows needs all locks at once.
    """
    for each in wanted:
        if each.has_misplaced_rows:
            yield each
        else:
            yield from (MissingPartitions(each.month, (parent,)) for parent in each.parents)


def _make(tx: Transaction, wanted: MissingPartitions, most_moved: int | None) -> list[str]:
    if wanted.month is None:
        made = [_create(tx, each, f"{each}_default", "DEFAULT") for each in wanted.parents]
        return [name for name in made if name]
    bounds = bounds_of(wanted.month)
    if not wanted.has_misplaced_rows:
        made = [_create(tx, each, wanted.month.table(each), bounds) for each in wanted.parents]
        return [name for name in made if name]
    default_partition.lock_tables(tx, PARTITIONED)
    reason = default_partition.reason_not_to_move(tx, wanted.month, wanted.parents, most_moved)
    if reason:
        log.warning("partition.not_made", extra={"month": str(wanted.month), "reason": reason})
        return []
    for parent in wanted.parents:
        default_partition.move_rows(tx, parent, wanted.month, bounds, _STORAGE.get(parent, ""))
    return [wanted.month.table(each) for each in wanted.parents]


def bounds_of(month: Month) -> str:
    """A month's bounds as the FOR VALUES clause of CREATE TABLE and ATTACH PARTITION."""
    return f"FOR VALUES FROM ('{month.first_id}') TO ('{month.next.first_id}')"


def _create(tx: Transaction, parent: str, name: str, bounds: str) -> str | None:
    default_partition.lock_tables(tx, [parent])
    # Another process may have created the partition while this one waited for the lock.
    if exists(tx, name):
        return None
    tx.execute(f"CREATE TABLE {name} PARTITION OF {parent} {bounds} {_STORAGE.get(parent, '')}")
    return name


def is_attached(tx: Transaction, name: str) -> bool:
    """Whether a table exists and is attached as a partition."""
    statement = "SELECT relispartition FROM pg_class WHERE oid = to_regclass(:name)"
    return bool(tx.execute(statement, {"name": name}).scalar_one_or_none())


def exists(tx: Transaction, name: str) -> bool:
    """Whether a table of this name exists, attached or not."""
    return tx.execute("SELECT to_regclass(:name)", {"name": name}).scalar_one() is not None
