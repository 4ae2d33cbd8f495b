"""Keeps how far each consumer has read the event log: one row by its name, moved with what it read.

    held = consumers.lock(tx, "statistics")         # None while another process consumes
    span = stretch.ahead(tx, held.seen, limit=2_000)
    ...                                             # what follows from the events of the span
    consumers.move(tx, held, span)

In one transaction, this consumes each event once, whatever dies in between. A consumer that speaks to another
service reads its place (`read`), works without a lock, and moves it afterwards: where it died in between, or
another process moved the place meanwhile, a batch was worked on twice.

One rule for all of them says what cannot be read any more:

- A replica that takes over has the place with the events: nothing happens.
- In a database that was restored from a dump of another server, places have that server's numbers of
  transactions. Reading goes on behind the transaction that restored the row.
- Events of a month that was dropped before they were read are gone; what still exists is read.

The log says both as `<consumer>.events_missed`. The row keeps the months, and when that was noticed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.orchestrator.feed import feed
from pipeweave.orchestrator.feed.place import SeenTransactions, lowest, texts
from pipeweave.orchestrator.feed.stretch import EventStretch
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

_SERVER = "(SELECT CAST(c.system_identifier AS text) FROM pg_control_system() AS c)"

# The last transaction of this server that wrote an event. Events that were restored from a dump may have
# higher numbers, for years.
_LAST = "(SELECT max(e.txid) FROM events AS e WHERE e.txid < pg_snapshot_xmax(pg_current_snapshot()))"

# The numbers of the place are another server's, or lie beyond the end of this one's.
_IS_MOVED = f"(p.server <> {_SERVER} OR p.before > pg_snapshot_xmax(pg_current_snapshot()))"

HAS_NEW = f"(cardinality(p.open) > 0 OR {_LAST} >= p.before OR {_IS_MOVED})"
"""SQL: whether there may be events that the consumer `p` has not read."""

# An idle deployment writes its places so often, so that they do not become too old.
_IS_OLD = "p.read_at < now() - interval '1 hour'"


def is_due(name: str) -> str:
    """SQL: whether a consumer has anything to do."""
    return f"""EXISTS (SELECT 1 FROM feed_consumers AS p
    WHERE p.name = '{name}' AND ({_IS_OLD} OR {HAS_NEW}))"""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """The place of a consumer, as it was read.

    Args:
        seen: where reading goes on.
        read_at: when it was there.
        is_old: it should be written anew, even if nothing is new.
        is_moved: the row came with a dump of another server.
        written_by: the transaction that wrote the row.
    """

    name: str
    seen: SeenTransactions
    read_at: datetime
    is_old: bool
    is_moved: bool
    written_by: int


_FORGET = "DELETE FROM feed_consumers WHERE name = :name AND read_at < now() - CAST(:unread_for AS interval)"
# The transactions before this one's snapshot have ended: what comes later is read.
_BEGIN = f"""
INSERT INTO feed_consumers (name, before, server, read_at)
VALUES (:name, pg_snapshot_xmin(pg_current_snapshot()), {_SERVER}, statement_timestamp())
ON CONFLICT DO NOTHING
"""


def begin(tx: Transaction, name: str, unread_for: timedelta) -> None:
    """Let a consumer read what is written from now on, unless it has read something within this time."""
    tx.execute(_FORGET, {"name": name, "unread_for": unread_for})
    tx.execute(_BEGIN, {"name": name})


_READ = f"""
SELECT p.name, CAST(p.before AS text) AS before, CAST(p.open AS text[]) AS open, p.read_at,
    {_IS_OLD} AS is_old, {_IS_MOVED} AS is_moved, {feed.written_by("p")} AS written_by
FROM feed_consumers AS p WHERE p.name = :name
"""
_LOCK = f"{_READ} FOR NO KEY UPDATE SKIP LOCKED"


def lock(tx: Transaction, name: str) -> HeldPlace | None:
    """Lock the place of a consumer until the commit; None while another process holds it, or without one."""
    return _held(tx.execute(_LOCK, {"name": name}).one_or_none())


def read(tx: Transaction, name: str) -> HeldPlace | None:
    """The place of a consumer; None: it has none."""
    return _held(tx.execute(_READ, {"name": name}).one_or_none())


def _held(row: Any) -> HeldPlace | None:
    if row is None:
        return None
    seen = SeenTransactions(int(row.before), tuple(int(each) for each in row.open))
    # Events of another server came with its numbers; those written since have numbers of this one, after that
    # of the transaction that restored the row.
    if row.is_moved and seen.before > row.written_by:
        seen = SeenTransactions(row.written_by)
    return HeldPlace(row.name, seen, row.read_at, row.is_old, row.is_moved, row.written_by)


# Months that were dropped are looked for after the events were read: none is dropped unnoticed in between.
_MOVE = f"""
UPDATE feed_consumers AS p SET before = CAST(CAST(:before AS text) AS xid8),
    open = CAST(CAST(:open AS text[]) AS xid8[]), read_at = :read_at, server = {_SERVER},
    missed_at = CASE WHEN cardinality(m.months) > 0 THEN now() ELSE p.missed_at END,
    missed_months = CASE WHEN cardinality(m.months) > 0 THEN m.months ELSE p.missed_months END
FROM (SELECT ARRAY({feed.MISSED}) AS months) AS m
WHERE p.name = :name AND {feed.written_by("p")} = :written_by
RETURNING m.months
"""


def move(tx: Transaction, held: HeldPlace, span: EventStretch) -> bool:
    """Move the place of a consumer to the end of a span, and say what it missed. Nothing is written when
    nothing is new.

    Returns:
        False: another process has moved it meanwhile. That cannot be while it is locked.
    """
    if span.is_empty and not held.is_old and not held.is_moved:
        return True
    parameters = {
        "name": held.name,
        "written_by": held.written_by,
        "before": str(span.after.before),
        "open": texts(span.after.open),
        "read_at": span.at,
        "at": held.read_at.timestamp(),
        "lowest": str(lowest(held.seen)),
    }
    months = tx.execute(_MOVE, parameters).scalar_one_or_none()
    if months is None:
        return False
    if held.is_moved:
        _say(held, "the database was restored on another server", [])
    if months:
        _say(held, "history was dropped", months)
    return True


def _say(held: HeldPlace, reason: str, months: list[str]) -> None:
    extra = {"reason": reason, "months": months, "read_at": held.read_at.isoformat()}
    log.warning("%s.events_missed", held.name, extra=extra)


_FILL = "UPDATE feed_consumers SET missed_at = NULL, missed_months = '{}' WHERE name = :name"


def forget_missed(tx: Transaction, name: str) -> None:
    """Forget what a consumer missed: it has read the past anew."""
    tx.execute(_FILL, {"name": name})
