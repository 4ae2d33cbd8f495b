"""Writes into the audit that a standby of PostgreSQL was promoted, once for the whole deployment."""

from __future__ import annotations

import socket

from pipeweave.orchestrator.security import audit
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.timeline import Promotion

# Verb and kind of the row.
VERB, KIND = "database.promoted", "deployment"

# What this process knows to be written: the database and the timeline.
_DONE: set[tuple[str, int]] = set()

_IS_WRITTEN = """
SELECT EXISTS (SELECT 1 FROM audit WHERE verb = :verb AND object = :object AND tenant_id IS NULL)
"""


def has_news(database: Database) -> bool:
    """Whether this process noticed a promotion that it does not know to be written. Asks no server."""
    latest = database.timeline.latest
    return latest is not None and (database.url, latest.new) not in _DONE


def run_once(database: Database) -> int:
    """Write the row of the last promotion that this process noticed, unless a process has. Returns how many
    rows it wrote. Without news it asks nothing.
    """
    latest = database.timeline.latest
    if latest is None or not has_news(database):
        return 0
    count = database.run(lambda tx: _write(tx, latest))
    _DONE.add((database.url, latest.new))
    return count


def _write(tx: Transaction, promotion: Promotion) -> int:
    advisory_locks.hold_until_commit(tx, advisory_locks.PROMOTION)
    shown = f"timeline {promotion.new}"
    if tx.execute(_IS_WRITTEN, {"verb": VERB, "object": shown}).scalar_one():
        return 0
    actor = audit.Actor("command", f"tick@{socket.gethostname()}")
    note = audit.Note(actor, VERB, KIND, object=shown)
    audit.write(tx, note, {"timeline": promotion.old}, {"timeline": promotion.new})
    return 1
