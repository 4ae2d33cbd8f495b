"""Says when the last tick was, where no beat runs."""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Database


def last_tick(database: Database, ahead: str) -> None:
    """Note that the last tick is this far in the future: `1 day`, and nobody misses it; or `-5 min`."""
    with database.transaction() as tx:
        tx.execute(
            "UPDATE orchestrator_state SET last_tick_at = now() + CAST(:ahead AS interval)", {"ahead": ahead}
        )
