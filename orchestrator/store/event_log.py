"""Writes events, the append-only history of runs, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.store.database import Transaction

_APPEND = """
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT e.run_id, :now, e.type, e.task_run_id, e.attempt, e.data
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
     AS e(run_id uuid, type text, task_run_id uuid, attempt integer, data jsonb)
"""


def append(tx: Transaction, events: Iterable[Event]) -> None:
    """Write the events in their order, in one statement."""
    rows = [event.to_row() for event in events]
    if rows:
        tx.execute(_APPEND, {"rows": orjson.dumps(rows).decode(), "now": tx.now})
