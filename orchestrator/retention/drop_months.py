"""Archives and drops months of history that are older than the retention policy.

A month is due when all of it is older than the policy. It is dropped when none of its runs is active:

    archive     while its partitions are still attached; takes seconds to minutes and blocks nobody
    detach      one table after the other, each in a moment; runs first, so that no run can be reopened
    compare     the detached rows with the archive; if a run changed in between, archive again
    drop        the detached tables, their run tokens and waits, in one transaction

If a process dies in between, the next process continues with the month from the step it had reached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar
from uuid import UUID

from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import archive, default_partition, partitions
from pipeweave.orchestrator.retention.archive import RowCounts
from pipeweave.orchestrator.retention.month_status import MonthOnDisk, active_runs, months_on_disk
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.orchestrator.store.lock_timeout import LockNotAvailable, at_once
from pipeweave.storage import Storage

log = logging.getLogger(__name__)

R = TypeVar("R")


def _host_clock() -> datetime:
    return datetime.now(UTC)


# Tries to lock a table that is in use, and seconds between two tries.
TRIES = 10
PAUSE_S = 1.0
# Another process goes on when one was not heard of for so long.
LEASE = timedelta(seconds=60)
# Nothing is dropped when the clocks of this host and of PostgreSQL differ by more: either may be wrong.
CLOCKS_MAY_DIFFER = timedelta(hours=1)


class MonthOutcome(StrEnum):
    """What happened to a month that is due: dropped; kept because runs are active or a table is in use; or,
    in a rehearsal, due.
    """

    DROPPED = "dropped"
    ACTIVE = "active"
    IN_USE = "in use"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class MonthResult:
    """The result for a month that was due.

    Args:
        counts: dropped rows; in a rehearsal, rows that would be dropped.
        archive: path of the manifest; None when nothing was archived.
        active_runs: the first few active runs, when they are why the month was kept.
    """

    month: Month
    outcome: MonthOutcome
    counts: RowCounts | None = None
    archive: str | None = None
    active_runs: tuple[UUID, ...] = ()


def run_once(
    database: Database,
    storage: Storage,
    policy: Policy,
    *,
    is_rehearsal: bool = False,
    tries: int = TRIES,
) -> list[MonthResult]:
    """Archive and drop every month that is due, oldest first; one result for each.

    Args:
        is_rehearsal: only report what would be done.
        tries: tries to lock a table that is in use.

    Raises:
        Conflict: another process is archiving or dropping history.
        Unavailable: PostgreSQL or storage cannot be reached; earlier months stay archived and dropped.
    """
    with database.transaction() as tx:
        due = [each.month for each in months_on_disk(tx) if is_due(each, policy, tx.now)]
        if is_rehearsal:
            return [_rehearse(tx, each) for each in due]
        _report_misplaced_rows(tx, policy)
    if not due:
        return []
    with alone(database) as lease:
        return [_drop_month(database, storage, policy, each, tries, lease) for each in due]


def is_due(on_disk: MonthOnDisk, policy: Policy, now: datetime) -> bool:
    """Whether a month may be dropped now. A partly detached month may, unless the policy keeps everything."""
    return policy.is_due(on_disk.month, now) or (on_disk.is_leaving and policy.runs is not None)


@contextmanager
def alone(database: Database) -> Iterator[Lease]:
    """Hold the lease for archiving and dropping.

    Args:
        database: with two connections: the lease is renewed beside the work.

    Raises:
        Conflict: another process holds the lease.
    """
    with leases.held(database, leases.RETENTION, LEASE) as lease:
        if lease is None:
            raise Conflict("another process is archiving or dropping history", hint="try again later")
        yield lease


def check_clock(database: Database, host_clock: Callable[[], datetime] = _host_clock) -> None:
    """Refuse to go on when PostgreSQL's clock, which decides which months are old, may be wrong: history that
    was dropped does not come back.

    Args:
        host_clock: the clock of this process's host, the only other one at hand.

    Raises:
        Conflict: the two clocks differ by more than CLOCKS_MAY_DIFFER.
    """
    apart = abs(database.now() - host_clock())
    if apart > CLOCKS_MAY_DIFFER:
        raise Conflict(
            f"the clocks of this machine and of PostgreSQL differ by {apart}",
            hint="nothing was dropped; correct the clock that is wrong",
        )


def _rehearse(tx: Transaction, month: Month) -> MonthResult:
    run_ids = active_runs(tx, month)
    outcome = MonthOutcome.ACTIVE if run_ids else MonthOutcome.DUE
    return MonthResult(month, outcome, archive.count_rows(tx, month), active_runs=tuple(run_ids))


def _drop_month(
    database: Database, storage: Storage, policy: Policy, month: Month, tries: int, lease: Lease
) -> MonthResult:
    with database.transaction() as tx:
        run_ids = active_runs(tx, month)
    if run_ids:
        return _not_dropped(month, MonthOutcome.ACTIVE, run_ids)
    try:
        _retry_while_in_use(tries, partial(partitions.ensure_month, database, month))
        if policy.is_archived:
            archive.archive_month(database, storage, month)
        run_ids = _detach(database, month, tries)
        if run_ids:
            return _not_dropped(month, MonthOutcome.ACTIVE, run_ids)
        with database.transaction() as tx:
            counts = archive.count_rows(tx, month)
        manifest = archive.archive_month(database, storage, month) if policy.is_archived else None
        _retry_while_in_use(tries, partial(_drop, database, month, lease))
    except LockNotAvailable:
        return _not_dropped(month, MonthOutcome.IN_USE)
    path = None if manifest is None else manifest.path
    log.info("month.dropped", extra={"month": str(month), "archive": path, **counts.to_json()})
    return MonthResult(month, MonthOutcome.DROPPED, counts, path)


def _not_dropped(month: Month, outcome: MonthOutcome, run_ids: list[UUID] | None = None) -> MonthResult:
    log.info("month.kept", extra={"month": str(month), "reason": str(outcome)})
    return MonthResult(month, outcome, active_runs=tuple(run_ids or ()))


def _detach(database: Database, month: Month, tries: int) -> list[UUID]:
    """Detach a month's partitions, unless runs of the month are active; returns some of those runs."""
    # PostgreSQL locks all partitions when it plans a statement, so a lock on an old partition blocks work on
    # today's. Hence one short transaction for each table.
    for parent in PARTITIONED:
        run_ids = _retry_while_in_use(tries, partial(_detach_from, database, parent, month))
        if run_ids:
            return run_ids
    return []


def _detach_from(database: Database, parent: str, month: Month) -> list[UUID]:
    name = month.table(parent)
    with at_once(database) as tx:
        if not partitions.is_attached(tx, name):
            return []
        default_partition.lock_tables(tx, [parent])
        if parent == "runs" and (run_ids := active_runs(tx, month)):
            return run_ids
        if partitions.is_attached(tx, name):
            tx.execute(f"ALTER TABLE {parent} DETACH PARTITION {name}")
            tx.execute(_NOTE, {"month": str(month), "now": tx.now, "last": _last_transaction(tx, month)})
        return []


# From now on readers of the event log miss what they had not read of this month.
_NOTE = """
INSERT INTO dropped_months AS d (month, dropped_at, last_txid)
VALUES (:month, :now, CAST(CAST(:last AS text) AS xid8))
ON CONFLICT (month) DO UPDATE SET dropped_at = excluded.dropped_at,
    last_txid = greatest(d.last_txid, excluded.last_txid)
"""


def _last_transaction(tx: Transaction, month: Month) -> str:
    """The last transaction of this server that wrote an event of the month; 0 for none. Events of a restored
    dump may have higher numbers, for years.
    """
    last = f"""
    SELECT CAST(max(e.txid) AS text) FROM {month.table("events")} AS e
    WHERE e.txid < pg_snapshot_xmax(pg_current_snapshot())
    """
    return str(tx.execute(last).scalar_one() or 0)


# No wait is open where no run is; one that was left by mistake would be looked at for ever.
_DROP_ROWS = (
    "DELETE FROM run_tokens WHERE run_id >= :low AND run_id < :high",
    "DELETE FROM waits WHERE run_id >= :low AND run_id < :high",
)


def _drop(database: Database, month: Month, lease: Lease) -> None:
    with at_once(database) as tx:
        leases.check(tx, lease)
        _drop_tables(tx, month)


def _drop_tables(tx: Transaction, month: Month) -> None:
    for each in _DROP_ROWS:
        tx.execute(each, {"low": month.first_id, "high": month.next.first_id})
    tx.execute(f"DROP TABLE IF EXISTS {', '.join(month.table(each) for each in PARTITIONED)}")


def _retry_while_in_use(tries: int, work: Callable[[], R]) -> R:
    for _ in range(tries - 1):
        try:
            return work()
        except LockNotAvailable:
            time.sleep(PAUSE_S)
    return work()


def _report_misplaced_rows(tx: Transaction, policy: Policy) -> None:
    """Log a warning for old rows in the default partitions, because they are never dropped."""
    for each in default_partition.count_misplaced(tx, PARTITIONED):
        if policy.is_due(each.month, tx.now):
            log.warning(
                "month.astray", extra={"month": str(each.month), "table": each.parent, "rows": each.rows}
            )
