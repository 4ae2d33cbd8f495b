"""Deletes expired rows in batches: dead letters, redrives, idempotency claims, workers, uploads, fires, …"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from datetime import datetime
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.objects import keepers
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Unfinished

# Rows of each table that one call deletes, within milliseconds. After a full batch the next tick continues.
BATCH = 1_000

_FIRES = ("schedule_fires", "trigger_fires", "event_fires", "hook_fires")


@dataclass(frozen=True, slots=True)
class Purged:
    """The number of deleted rows per table; `is_full` when a batch was full, so more rows may be left."""

    dead_letters: int = 0
    idempotency_claims: int = 0
    workers: int = 0
    redrives: int = 0
    uploads: int = 0
    fires: int = 0
    trigger_fires: int = 0
    event_fires: int = 0
    hook_fires: int = 0
    enqueued_runs: int = 0
    sessions: int = 0
    login_links: int = 0
    audit: int = 0
    bulk_change_runs: int = 0
    bulk_changes: int = 0
    asset_claims: int = 0
    is_full: bool = field(default=False, kw_only=True)

    def __add__(self, other: Purged) -> Purged:
        counts = map(sum, zip(self._counts, other._counts, strict=True))
        return Purged(*counts, is_full=other.is_full)

    @property
    def _counts(self) -> tuple[int, ...]:
        return astuple(self)[:-1]

    @property
    def of_triggers(self) -> int:
        """Deliveries and events that triggers and hooks fired for."""
        return self.trigger_fires + self.event_fires + self.hook_fires

    @property
    def total(self) -> int:
        return sum(self._counts)


# A locked row is being retried, taken over or discarded: SKIP LOCKED leaves it to the next call.
_DELETE = """
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE {column} < :before{but} ORDER BY {column} LIMIT :batch
    FOR UPDATE SKIP LOCKED))
"""


def run_once(tx: Transaction, policy: Policy, batch: int | None = None) -> Purged:
    """Delete rows that are older than the policy, at most `batch` of each table (default BATCH)."""
    batch = BATCH if batch is None else batch
    deleted = [_delete(tx, each, batch) for each in expired(tx.now, policy)]
    return Purged(*deleted, is_full=batch in deleted)


@dataclass(frozen=True, slots=True)
class Expired:
    """The rows of a table that have expired: those whose column is before a time, or the id of that time."""

    table: str
    column: str
    before: datetime | UUID
    but: str = ""


# A claim goes after its run; the one of a result that is still reused stays.
_IS_REUSED = keepers.is_reused("asset_claims.task_run_id", keepers.path_of("asset_claims.path"))
_HAS_RUN = "(SELECT true FROM runs AS r WHERE r.id = asset_claims.run_id LIMIT 1)"
_IS_UNUSED = f" AND {_HAS_RUN} IS NULL AND NOT {_IS_REUSED}"


def expired(now: datetime, policy: Policy) -> list[Expired]:
    """For each table, which of its rows have expired; in the order of the fields of `Purged`."""
    return [
        *(Expired(*each) for each in _by_time(now, policy)),
        Expired("asset_claims", "run_id", _first_id(now - policy.fires), _IS_UNUSED),
    ]


def _first_id(moment: datetime) -> UUID:
    return ids.first_id_at(max(0, int(moment.timestamp() * 1000)))


def _by_time(now: datetime, policy: Policy) -> list[tuple[str, str, datetime]]:
    return [
        ("dead_letters", "failed_at", now - policy.dead_letters),
        ("idempotency_claims", "expires_at", now),
        ("workers", "stopped_at", now - policy.workers),
        ("redrives", "finished_at", now - policy.dead_letters),
        # Their objects went before.
        ("temp_uploads", "deleted_at", now - policy.uploads),
        *((each, "fired_at", now - policy.fires) for each in _FIRES),
        ("enqueued_runs", "settled_at", now - policy.fires),
        ("ui_sessions", "expires_at", now),
        ("ui_links", "expires_at", now),
        ("audit", "at", now - (policy.audit or policy.fires)),
        ("bulk_change_runs", "at", now - policy.dead_letters),
        ("bulk_changes", "finished_at", now - policy.dead_letters),
    ]


def _delete(tx: Transaction, rows: Expired, batch: int) -> int:
    statement = _DELETE.format(table=rows.table, column=rows.column, but=rows.but)
    return tx.execute(statement, {"before": rows.before, "batch": batch}).rowcount


_COUNT = "SELECT count(*) FROM {table} WHERE {column} < :before{but}"


def count_expired(database: Database, policy: Policy) -> Purged:
    """Count the rows that `purge_all` would delete."""
    with database.transaction() as tx:
        counts = [
            int(tx.execute(_count_of(each), {"before": each.before}).scalar_one())
            for each in expired(tx.now, policy)
        ]
    return Purged(*counts)


def _count_of(rows: Expired) -> str:
    return _COUNT.format(table=rows.table, column=rows.column, but=rows.but)


def purge_batch(database: Database, policy: Policy) -> int:
    """Call `run_once` in a transaction of its own. Returns the number of deleted rows."""
    with database.transaction() as tx:
        purged = run_once(tx, policy)
    return Unfinished(purged.total) if purged.is_full else purged.total


def purge_all(database: Database, policy: Policy) -> Purged:
    """Call `run_once` until no batch is full, each call in its own transaction."""
    purged = Purged(is_full=True)
    while purged.is_full:
        with database.transaction() as tx:
            purged += run_once(tx, policy)
    return purged
