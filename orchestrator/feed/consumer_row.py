"""Lets the tick read the event log, for whoever stores something that fires for events.

There is a row while something fires for events. Who stores such a thing holds it with KEY SHARE until the
commit: they do not wait for each other, and the tick does not remove the row meanwhile.
"""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Transaction

# The transactions before this one's snapshot have ended: what comes later is read.
_INSERT = """
INSERT INTO event_reader (since, read_at) VALUES (pg_snapshot_xmin(pg_current_snapshot()), :now)
ON CONFLICT DO NOTHING
"""
_HOLD = "SELECT 1 FROM event_reader FOR KEY SHARE"


def begin(tx: Transaction) -> None:
    """Let the tick read events from now on, unless it does."""
    while True:
        tx.execute(_INSERT, {"now": tx.now})
        # It may have been removed since the other statement found it.
        if tx.execute(_HOLD).first() is not None:
            return


_TO_REMOVE = "SELECT 1 FROM event_reader FOR UPDATE SKIP LOCKED"


def lock_to_remove(tx: Transaction) -> bool:
    """Lock the row, unless somebody stores something that fires for events. What later statements find is all
    that there is.
    """
    return tx.execute(_TO_REMOVE).first() is not None


_REMOVE = "DELETE FROM event_reader"


def remove(tx: Transaction) -> None:
    """Let the tick read no more events. The row is locked (`lock_to_remove`)."""
    tx.execute(_REMOVE)
