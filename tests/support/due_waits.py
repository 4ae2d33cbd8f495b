"""Whether waits are due, as beat asks it between two ticks."""

from __future__ import annotations

from pipeweave.orchestrator.starts.enqueued.starting import has_due
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import due


def is_due(database: Database) -> bool:
    """Whether a wait is due, and may be looked at."""
    with database.statements() as tx:
        return has_due(tx, due.MAY_BE_LOOKED_AT).also == (True,)
