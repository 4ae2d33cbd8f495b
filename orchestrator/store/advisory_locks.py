"""Takes advisory locks of PostgreSQL, for a block or until the commit, and lists their numbers.

A lock for a long chore is held by a transaction that does nothing else, on a reserved connection: the chore
keeps its own connection, and the lock ends with the process. No lock is held by a session, because a pooler
may give the session to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeweave.orchestrator.store.database import Database, Transaction

# One process ticks at a time.
TICK = 0x7469636B
# One process archives and drops months at a time.
RETENTION = 0x72657461_696E
# One process migrates the schema at a time.
MIGRATION = 0x70697065_77656176
# The class of a lock per tenant: services of a tenant register one after the other.
REGISTRATION = 0x72656769

_TRY = "SELECT pg_try_advisory_xact_lock(:lock)"
# The transaction that holds a lock is idle for as long as the block takes.
_KEEP = "SET LOCAL idle_in_transaction_session_timeout = 0"
_UNTIL_COMMIT = "SELECT pg_advisory_xact_lock(:lock)"
_TENANT_UNTIL_COMMIT = "SELECT pg_advisory_xact_lock(:class, hashtext(:tenant))"


@contextmanager
def alone(database: Database, lock: int) -> Iterator[bool]:
    """Hold a lock during the block, if no other process holds it.

    Yields:
        Whether this process holds the lock; the block runs in any case.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.reserved() as tx:
        tx.hold()
        tx.execute(_KEEP)
        # `reserved` ends the transaction, and the lock with it.
        yield bool(tx.execute(_TRY, {"lock": lock}).scalar_one())


def hold_until_commit(tx: Transaction, lock: int) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    tx.execute(_UNTIL_COMMIT, {"lock": lock})


def hold_tenant_until_commit(tx: Transaction, lock_class: int, tenant: str) -> None:
    """Wait for a tenant's lock of this class and hold it until the transaction ends."""
    tx.execute(_TENANT_UNTIL_COMMIT, {"class": lock_class, "tenant": tenant})
