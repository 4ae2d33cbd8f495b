"""Reads when a run was over, before a retried dead letter reopened it: nothing of it took that time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from pipeweave.orchestrator.domain.states import FINAL_RUN
from pipeweave.orchestrator.store.database import Transaction

# Among so many last events it is looked for when the run was over.
_EVENTS_READ = 10_000
_REOPENED = "run.reopened"
_TYPES = (_REOPENED, *(f"run.{status}" for status in sorted(FINAL_RUN)))

_OVERS = """
SELECT e.at, e.type FROM (
    SELECT n.seq, n.at, n.type FROM events AS n WHERE n.run_id = :id ORDER BY n.seq DESC LIMIT :limit) AS e
WHERE e.type = ANY(CAST(:types AS text[])) ORDER BY e.seq
"""

# From an end of the run until it was reopened.
Over = tuple[datetime, datetime]


def overs_of(tx: Transaction, id: UUID) -> list[Over]:
    """When a run that was reopened had been over, in order. To ask only of such a run."""
    overs: list[Over] = []
    ended: datetime | None = None
    for row in tx.execute(_OVERS, {"id": id, "limit": _EVENTS_READ, "types": list(_TYPES)}):
        if row.type != _REOPENED:
            ended = row.at
        elif ended is not None:
            overs.append((ended, row.at))
            ended = None
    return overs


def over_ms(overs: Sequence[Over], started: str | None, finished: str | None) -> float:
    """How much of these times (ms) lies between two times as answers write them; an open end has no bound."""
    if started is None or not overs:
        return 0.0
    begin, end = (
        datetime.fromisoformat(started),
        None if finished is None else datetime.fromisoformat(finished),
    )
    shares = (
        ((until if end is None else min(until, end)) - max(since, begin)).total_seconds()
        for since, until in overs
    )
    return round(1_000 * sum(each for each in shares if each > 0), 1)
