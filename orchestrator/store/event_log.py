"""The append-only history of a run: one row per change, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: `type` is `noun.verb`, `data` what is needed to rebuild the state from
    events.
    """

    run_id: UUID
    type: str
    task_run_id: UUID | None = None
    attempt: int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        return {
            "run_id": str(self.run_id),
            "type": self.type,
            "task_run_id": None if self.task_run_id is None else str(self.task_run_id),
            "attempt": self.attempt,
            "data": self.data or None,
        }


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
