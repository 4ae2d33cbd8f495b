"""Deletes expired rows in batches: dead letters, redrives, idempotency claims, workers, uploads, fires, …"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from datetime import datetime

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
    SELECT ctid FROM {table} WHERE {column} < :before ORDER BY {column} LIMIT :batch FOR UPDATE SKIP LOCKED))
"""


def run_once(tx: Transaction, policy: Policy, batch: int | None = None) -> Purged:
    """Delete rows that are older than the policy, at most `batch` of each table (default BATCH)."""
    batch = BATCH if batch is None else batch
    deleted = [_delete(tx, *each, batch) for each in _expired(tx, policy)]
    return Purged(*deleted, is_full=batch in deleted)


def _expired(tx: Transaction, policy: Policy) -> list[tuple[str, str, datetime]]:
    """For each table: its name, its time column, and the time before which a row has expired.

    They are in the order of the fields of `Purged`.
    """
    return [
        ("dead_letters", "failed_at", tx.now - policy.dead_letters),
        ("idempotency_claims", "expires_at", tx.now),
        ("workers", "stopped_at", tx.now - policy.workers),
        ("redrives", "finished_at", tx.now - policy.dead_letters),
        # Their objects went before.
        ("temp_uploads", "deleted_at", tx.now - policy.uploads),
        *((each, "fired_at", tx.now - policy.fires) for each in _FIRES),
        ("enqueued_runs", "settled_at", tx.now - policy.fires),
        ("ui_sessions", "expires_at", tx.now),
        ("ui_links", "expires_at", tx.now),
        ("audit", "at", tx.now - (policy.audit or policy.fires)),
        ("bulk_change_runs", "at", tx.now - policy.dead_letters),
        ("bulk_changes", "finished_at", tx.now - policy.dead_letters),
    ]


def _delete(tx: Transaction, table: str, column: str, before: datetime, batch: int) -> int:
    statement = _DELETE.format(table=table, column=column)
    return tx.execute(statement, {"before": before, "batch": batch}).rowcount


_COUNT = "SELECT count(*) FROM {table} WHERE {column} < :before"


def count_expired(database: Database, policy: Policy) -> Purged:
    """Count the rows that `purge_all` would delete."""
    with database.transaction() as tx:
        counts = [
            int(tx.execute(_COUNT.format(table=table, column=column), {"before": before}).scalar_one())
            for table, column, before in _expired(tx, policy)
        ]
    return Purged(*counts)


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
