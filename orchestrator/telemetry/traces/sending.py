"""Sends the spans of what has ended since the last time.

What was sent is noted after it was sent: a process that dies in between sends the batch again, and the spans
have the same ids. Nothing is locked while a collector is spoken to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeweave.orchestrator.feed import stretch
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.telemetry.traces import place
from pipeweave.orchestrator.telemetry.traces.ended import spans_of
from pipeweave.orchestrator.telemetry.traces.spans import Span

# About so many events make one batch.
BATCH = 1_000

# Sends spans, and says whether they have arrived.
Send = Callable[[Sequence[Span]], bool]


def run_once(database: Database, send: Send) -> bool:
    """Send one batch, if there is anything.

    Returns:
        Whether there may be more already.
    """
    with database.statements() as tx:
        sent = place.read(tx)
        if sent is None:
            place.begin(tx)
            return False
    with database.reading() as tx:
        ahead = stretch.ahead(tx, sent.seen, limit=BATCH)
        found = [] if ahead.is_empty else list(spans_of(tx, ahead))
    if ahead.is_empty or (found and not send(found)):
        return False
    with database.statements() as tx:
        moved = place.move(tx, sent, ahead.after)
    return moved and ahead.more


def begin(database: Database) -> None:
    """Begin, when a process starts that sends."""
    with database.transaction() as tx:
        place.begin(tx)
