"""The chore of the tick that deletes minutes and hours older than they are kept; days stay for ever."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Unfinished
from pipeweave.orchestrator.telemetry.statistics.grains import Grain

# Rows of each table that one transaction deletes. After a full batch the next tick continues.
BATCH = 5_000
EXPIRING = tuple(each for each in Grain if each.kept is not None)


def _delete(table: str) -> str:
    # The list of grains is the WHERE of the index of rows that expire.
    return f"""
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
    SELECT s.ctid FROM {table} AS s
    WHERE s.grain IN ('minute', 'hour') AND s.grain = :grain AND s.at < :before
    ORDER BY s.at LIMIT :batch))
"""


_DELETE_RUNS = _delete("run_stats")
_DELETE_TASKS = _delete("task_stats")


def run_once(database: Database) -> int:
    """Delete a batch of what has expired. Returns the number of deleted rows."""
    deleted = [database.run(partial(delete, grain=each)) for each in EXPIRING]
    return Unfinished(sum(deleted)) if max(deleted) >= BATCH else sum(deleted)


def delete(tx: Transaction, grain: Grain, batch: int | None = None) -> int:
    """Delete rows that are older than their grain is kept.

    Args:
        grain: one of EXPIRING.
        batch: at most so many rows of each table; None for BATCH.

    Returns:
        How many were deleted.
    """
    before = grain.begin_of(tx.now - (grain.kept or timedelta.max))
    parameters = {"grain": grain.value, "before": before, "batch": BATCH if batch is None else batch}
    return tx.execute(_DELETE_RUNS, parameters).rowcount + tx.execute(_DELETE_TASKS, parameters).rowcount
