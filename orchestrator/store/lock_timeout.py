"""Locks on whole tables, taken only when they are to be had at once.

Whoever waits for such a lock makes everyone behind him wait, too. So what changes the tables of a deployment
at work gives up after a moment and leaves it to its next try.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2.errors import CheckViolation, LockNotAvailable

from pipeweave.orchestrator.store.database import Database, Transaction

# Running work stands still for this long at most, once per try.
LOCK_TIMEOUT_MS = 100


class InUse(Exception):
    """Others hold what is needed; nothing was changed, and another try later is as good."""


@contextmanager
def at_once(database: Database) -> Iterator[Transaction]:
    """A transaction that waits LOCK_TIMEOUT_MS for each lock, at most.

    Raises:
        InUse: that was not enough, or a row came in between.
    """
    with database.transaction() as tx:
        tx.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        try:
            yield tx
        except (LockNotAvailable, CheckViolation) as error:
            raise InUse from error
