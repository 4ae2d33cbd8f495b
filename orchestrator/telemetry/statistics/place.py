"""How far events are counted: one row, moved in the transaction that counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.orchestrator.feed import Seen, Span, feed
from pipeweave.orchestrator.feed.place import texts
from pipeweave.orchestrator.store.database import Transaction

# An idle deployment writes its place so often.
REFRESHED = timedelta(hours=1)

# SQL: the last transaction of this server that wrote an event. Events that were restored from a dump may have
# higher numbers, for years.
_LAST = "(SELECT max(e.txid) FROM events AS e WHERE e.txid < pg_snapshot_xmax(pg_current_snapshot()))"

# SQL: whether the numbers of a place are those of another server, on which the database was before it was
# restored here, or lie beyond the end of this one's.
_IS_MOVED = """(p.server <> (SELECT CAST(c.system_identifier AS text) FROM pg_control_system() AS c)
    OR p.before > pg_snapshot_xmax(pg_current_snapshot()))"""

# SQL: whether there is anything to count. What an open transaction wrote is found by the next look.
IS_DUE = f"""EXISTS (SELECT 1 FROM stats_place AS p WHERE cardinality(p.open) > 0
    OR p.folded_at < now() - interval '1 hour' OR {_LAST} >= p.before OR {_IS_MOVED})"""


@dataclass(frozen=True, slots=True)
class Folded:
    """The place of the statistics.

    Args:
        seen: the transactions whose events are counted.
        at: when that was so.
        is_old: it should be written anew, even if nothing is new.
        is_moved: the database was restored on another server, whose transactions have other numbers; or the
            place is beyond the end of this one's.
        written_by: the transaction that wrote this row.
    """

    seen: Seen
    at: datetime
    is_old: bool
    is_moved: bool
    written_by: int


_LOCK = f"""
SELECT CAST(p.before AS text) AS before, CAST(p.open AS text[]) AS open, p.folded_at,
    p.folded_at < now() - interval '1 hour' AS is_old,
    {_IS_MOVED} AS is_moved,
    {feed.written_by("p")} AS written_by
FROM stats_place AS p
FOR NO KEY UPDATE OF p SKIP LOCKED
"""


def lock(tx: Transaction) -> Folded | None:
    """Lock the place until the commit; None while somebody else counts."""
    row = tx.execute(_LOCK).one_or_none()
    if row is None:
        return None
    seen = Seen(int(row.before), tuple(int(each) for each in row.open))
    return Folded(seen, row.folded_at, row.is_old, row.is_moved, row.written_by)


def begin_of(folded: Folded) -> Seen:
    """Where counting goes on. Events of a database that was restored elsewhere come with numbers of another
    server; those written since have numbers of this one, after that of the transaction that restored the row.
    """
    if folded.is_moved and folded.seen.before > folded.written_by:
        return Seen(folded.written_by)
    return folded.seen


_MOVE = """
UPDATE stats_place SET before = CAST(CAST(:before AS text) AS xid8),
    open = CAST(CAST(:open AS text[]) AS xid8[]), folded_at = :at,
    server = (SELECT CAST(c.system_identifier AS text) FROM pg_control_system() AS c),
    missed_at = CASE WHEN :is_missed THEN CAST(:at AS timestamptz) ELSE missed_at END
"""


def move(tx: Transaction, span: Span, *, is_missed: bool) -> None:
    """Move the place, which is locked, to the end of a span.

    Args:
        is_missed: history was dropped before it was counted.
    """
    tx.execute(
        _MOVE,
        {
            "before": str(span.after.before),
            "open": texts(span.after.open),
            "at": span.at,
            "is_missed": is_missed,
        },
    )


# What is not counted yet makes the difference between now and the last fold.
_AS_OF = f"""
SELECT CASE WHEN cardinality(p.open) > 0 OR {_LAST} >= p.before OR {_IS_MOVED}
        THEN p.folded_at ELSE now() END AS as_of,
    p.since, p.missed_at, p.rebuilt_before IS NOT NULL AS is_rebuilding
FROM stats_place AS p
"""


@dataclass(frozen=True, slots=True)
class AsOf:
    """What statistics say.

    Args:
        at: everything that was committed up to this moment is counted.
        since: what happened earlier is not counted, unless it was counted anew from the events.
        missed_at: when history was dropped before it was counted; None if that never happened.
        is_rebuilding: the past is being counted anew, so rows are not complete.
    """

    at: datetime
    since: datetime
    missed_at: datetime | None
    is_rebuilding: bool


def as_of(tx: Transaction) -> AsOf:
    """How current the statistics are."""
    row: Any = tx.execute(_AS_OF).one()
    return AsOf(row.as_of, row.since, row.missed_at, row.is_rebuilding)
