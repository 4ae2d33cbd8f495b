"""Takes advisory locks of PostgreSQL until the commit, and lists their numbers.

No session holds one beyond its transaction: a pooler may give the session to others, and one whose host
vanished would hold it for as long as its connection stays open. For a right that lasts longer, see leases.py.
ASLEEP alone is held by a session, as a hint: alarm.py.
"""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Transaction

# One process migrates the schema at a time.
MIGRATION = 0x70697065_77656176
# Promotions are written into the audit one at a time.
PROMOTION = 0x70726F6D
# The class of a lock per tenant: services of a tenant register one after the other.
REGISTRATION = 0x72656769
# The class of a lock per tenant: views are counted before one is added.
VIEWS = 0x76696577
# The class of a lock per run token: deliveries that may start the run of a token come one after the other.
RUN_TOKEN = 0x746F6B65
# The class of a lock per run: one process at a time looks at the children of a run that have ended.
CHILDREN = 0x6368696C
# The class of a lock per table: who waits for its rows sleeps, and wants to be notified.
ASLEEP = 0x656E7175

_UNTIL_COMMIT = "SELECT pg_advisory_xact_lock(:lock)"
_NAMED_UNTIL_COMMIT = "SELECT pg_advisory_xact_lock(:class, hashtext(:name))"
_TRY_NAMED = "SELECT pg_try_advisory_xact_lock(:class, hashtext(:name))"


def hold_until_commit(tx: Transaction, lock: int) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    tx.execute(_UNTIL_COMMIT, {"lock": lock})


def hold_tenant_until_commit(tx: Transaction, lock_class: int, tenant: str) -> None:
    """Wait for a tenant's lock of this class and hold it until the transaction ends."""
    hold_named_until_commit(tx, lock_class, tenant)


def hold_named_until_commit(tx: Transaction, lock_class: int, name: str) -> None:
    """Wait for the lock of this class and name and hold it until the transaction ends."""
    tx.execute(_NAMED_UNTIL_COMMIT, {"class": lock_class, "name": name})


def try_named_until_commit(tx: Transaction, lock_class: int, name: str) -> bool:
    """Take the lock of this class and name, if nobody holds it, and hold it until the transaction ends.
    Returns whether it was taken.
    """
    return bool(tx.execute(_TRY_NAMED, {"class": lock_class, "name": name}).scalar_one())
