"""Says how current the statistics are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.feed import consumers
from pipeweave.orchestrator.store.database import Transaction

# The consumer of events that counts them.
CONSUMER = "statistics"

# What is not counted yet makes the difference between now and the last fold.
_AS_OF = f"""
SELECT CASE WHEN {consumers.HAS_NEW} THEN p.read_at ELSE now() END AS as_of,
    s.since, p.missed_at, s.rebuilt_before IS NOT NULL AS is_rebuilding
FROM feed_consumers AS p CROSS JOIN stats_place AS s WHERE p.name = '{CONSUMER}'
"""


@dataclass(frozen=True, slots=True)
class AsOf:
    """What statistics say.

    Args:
        at: everything that was committed up to this moment is counted.
        since: what happened earlier is not counted, unless it was counted anew from the events.
        missed_at: when it was noticed that history was dropped before it was counted; None if that never
            happened.
        is_rebuilding: the past is being counted anew, so rows are not complete.
    """

    at: datetime
    since: datetime
    missed_at: datetime | None
    is_rebuilding: bool

    def to_json(self) -> dict[str, Any]:
        """As the command shows it."""
        return {
            "asOf": iso(self.at),
            "since": iso(self.since),
            "missedAt": iso(self.missed_at),
            "isRebuilding": self.is_rebuilding,
        }


def as_of(tx: Transaction) -> AsOf:
    """How current the statistics are."""
    row: Any = tx.execute(_AS_OF).one()
    return AsOf(row.as_of, row.since, row.missed_at, row.is_rebuilding)
