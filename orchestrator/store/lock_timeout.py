"""Locks whole tables with a short timeout.

A transaction that waits for a table lock makes all later transactions wait behind it. So a change of tables
in a running deployment gives up after LOCK_TIMEOUT_MS, and is tried again later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2 import errors

from pipeweave.orchestrator.store.database import Database, Transaction

# Running work waits for this long (ms) at most, once per try.
LOCK_TIMEOUT_MS = 100


class LockNotAvailable(Exception):
    """Another transaction holds a lock on the table. Nothing was changed; a later try may succeed."""


@contextmanager
def at_once(database: Database) -> Iterator[Transaction]:
    """Begin a transaction that waits at most LOCK_TIMEOUT_MS for each lock.

    Raises:
        LockNotAvailable: a lock was not available in time, or a row was inserted meanwhile.
    """
    with database.transaction() as tx:
        tx.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        try:
            yield tx
        except (errors.LockNotAvailable, errors.CheckViolation) as error:
            raise LockNotAvailable from error
