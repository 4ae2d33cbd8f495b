"""A stretch of the event log, for readers that count events in SQL instead of taking each of them.

    span = stretch.ahead(tx, seen, limit=2_000)
    tx.execute(f"SELECT count(*) FROM ({stretch.EVENTS}) AS e", {**span.parameters, "types": [...]})

All transactions of a stretch have ended, so it is the same however often it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.feed import feed
from pipeweave.orchestrator.feed.feed import WRITTEN_HERE, FeedEvent
from pipeweave.orchestrator.feed.place import Place, SeenTransactions, Snapshot, texts
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class EventStretch:
    """The events between two places.

    Args:
        before: what was seen before them.
        after: what is seen with them.
        at: when this was asked, by PostgreSQL's clock.
        more: whether there are more events already.
    """

    before: SeenTransactions
    after: SeenTransactions
    at: datetime
    more: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it, and the place is the same."""
        return self.before == self.after

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of EVENTS, without `types`."""
        return {
            "ended": texts(self.before.ended(self.after)),
            "before": str(self.before.before),
            "until": str(self.after.before),
            "open": texts(self.after.open),
        }


_COLUMNS = "e.run_id, e.seq, e.at, e.type, e.task_run_id, e.attempt, e.data"

EVENTS = f"""
SELECT {_COLUMNS} FROM events AS e
WHERE {WRITTEN_HERE} AND e.type = ANY(CAST(:types AS text[]))
    AND e.txid = ANY(CAST(CAST(:ended AS text[]) AS xid8[]))
UNION ALL
SELECT {_COLUMNS} FROM events AS e
WHERE {WRITTEN_HERE} AND e.type = ANY(CAST(:types AS text[]))
    AND e.txid >= CAST(CAST(:before AS text) AS xid8) AND e.txid < CAST(CAST(:until AS text) AS xid8)
    AND NOT e.txid = ANY(CAST(CAST(:open AS text[]) AS xid8[]))
"""
"""SQL: the events of a span, of the types that are asked for."""

# The transaction of the event that comes `limit` events later, or else the last one that has written any.
_AHEAD = """
SELECT CAST(pg_current_snapshot() AS text) AS snapshot, statement_timestamp() AS at,
       CAST((SELECT e.txid FROM events AS e
             WHERE e.txid >= CAST(CAST(:before AS text) AS xid8)
                 AND e.txid < pg_snapshot_xmax(pg_current_snapshot())
             ORDER BY e.txid OFFSET :limit LIMIT 1) AS text) AS cut,
       CAST((SELECT max(e.txid) FROM events AS e
             WHERE e.txid < pg_snapshot_xmax(pg_current_snapshot())) AS text) AS last
"""


def ahead(tx: Transaction, seen: SeenTransactions, *, limit: int) -> EventStretch:
    """The events that became visible after a place, about `limit` of them: a transaction's come together.

    Call it in a transaction that is READ COMMITTED.
    """
    row = tx.execute(_AHEAD, {"before": str(seen.before), "limit": limit}).one()
    last = int(row.cut or row.last or 0)
    after = seen.up_to(max(last, seen.before - 1), Snapshot.parse(row.snapshot))
    return EventStretch(seen, after, row.at, more=row.cut is not None)


def events(
    tx: Transaction, span: EventStretch, *, types: Sequence[str], limit: int
) -> Iterator[Sequence[FeedEvent]]:
    """The events of a span, at most `limit` at a time: one transaction may have written very many."""
    place = Place(span.before, span.after, seq=-1)
    while place.next is not None:
        batch = feed.read_after(tx, place, types=types, limit=limit)
        yield batch.events
        place = batch.place
