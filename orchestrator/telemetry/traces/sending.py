"""Sends the spans of what has ended since the last time.

What was sent is noted after it was sent: a process that dies in between sends the batch again, and the spans
have the same ids. Nothing is locked while a collector is spoken to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from pipeweave.orchestrator.feed import consumers, stretch
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.telemetry.traces.ended import spans_of
from pipeweave.orchestrator.telemetry.traces.spans import TraceSpan

# The consumer of events that sends spans.
CONSUMER = "traces"
# If no process has sent spans for longer, sending begins anew at the newest event; the spans in between are
# never sent.
LEFT_BEHIND = timedelta(hours=24)
# The usual number of events in one batch.
BATCH = 1_000

# Sends spans, and says whether they have arrived.
Send = Callable[[Sequence[TraceSpan]], bool]


def run_once(database: Database, send: Send) -> bool:
    """Send one batch, if there is anything.

    Returns:
        Whether there may be more already.
    """
    with database.reading() as tx:
        held = consumers.read(tx, CONSUMER)
        if held is None:
            begin(database)
            return False
        span = stretch.ahead(tx, held.seen, limit=BATCH)
        spans = [] if span.is_empty else list(spans_of(tx, span))
    if spans and not send(spans):
        return False
    with database.statements() as tx:
        return consumers.move(tx, held, span) and span.more


def begin(database: Database) -> None:
    """Begin at what is written from now on, unless spans were sent within the last day."""
    with database.transaction() as tx:
        consumers.begin(tx, CONSUMER, LEFT_BEHIND)
