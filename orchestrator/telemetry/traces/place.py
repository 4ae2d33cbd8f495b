"""How far spans were sent: one row, moved after a batch was sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pipeweave.orchestrator.feed import Seen, feed
from pipeweave.orchestrator.feed.place import texts
from pipeweave.orchestrator.store.database import Transaction

# A place that was left alone for longer, because no spans were sent, is left behind.
KEPT = timedelta(hours=24)

_BEGIN = """
INSERT INTO trace_place (before, open, server, sent_at)
SELECT CAST(CAST(:before AS text) AS xid8), CAST(CAST(:open AS text[]) AS xid8[]),
       CAST(c.system_identifier AS text), statement_timestamp() FROM pg_control_system() AS c
ON CONFLICT (singleton) DO UPDATE SET before = EXCLUDED.before, open = EXCLUDED.open,
    server = EXCLUDED.server, sent_at = EXCLUDED.sent_at
WHERE trace_place.server <> EXCLUDED.server OR trace_place.before > pg_snapshot_xmax(pg_current_snapshot())
    OR trace_place.sent_at < EXCLUDED.sent_at - CAST(:kept AS interval)
"""

# A place whose numbers are those of another server, on which the database was before it was restored here, is
# none, and neither is one beyond the end of this server's.
_READ = """
SELECT CAST(p.before AS text) AS before, CAST(p.open AS text[]) AS open FROM trace_place AS p
WHERE p.server = (SELECT CAST(c.system_identifier AS text) FROM pg_control_system() AS c)
    AND p.before <= pg_snapshot_xmax(pg_current_snapshot())
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """The transactions whose spans were sent."""

    seen: Seen


def begin(tx: Transaction) -> None:
    """Begin at what is written from now on, unless spans were sent within the last day, to this server."""
    now = feed.latest(tx).seen
    tx.execute(_BEGIN, {"before": str(now.before), "open": texts(now.open), "kept": KEPT})


def read(tx: Transaction) -> Sent | None:
    """Where sending goes on; None before `begin`, and after the database was restored on another server."""
    row = tx.execute(_READ).one_or_none()
    return row and Sent(Seen(int(row.before), tuple(int(each) for each in row.open)))


# Whoever sent the same batch has moved it already.
_MOVE = """
UPDATE trace_place SET before = CAST(CAST(:before AS text) AS xid8),
    open = CAST(CAST(:open AS text[]) AS xid8[]), sent_at = statement_timestamp()
WHERE before = CAST(CAST(:old AS text) AS xid8) AND open = CAST(CAST(:old_open AS text[]) AS xid8[])
"""


def move(tx: Transaction, sent: Sent, after: Seen) -> bool:
    """Note that everything up to a place was sent; False when another process did."""
    moved = tx.execute(
        _MOVE,
        {
            "before": str(after.before),
            "open": texts(after.open),
            "old": str(sent.seen.before),
            "old_open": texts(sent.seen.open),
        },
    )
    return moved.rowcount > 0
