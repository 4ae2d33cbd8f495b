"""The chore of the tick that starts what events fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import fires, loop
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.starts.loop import Source
from pipeweave.orchestrator.starts.triggers import last_fire, matching
from pipeweave.orchestrator.starts.triggers.row import COLUMNS, StoredTrigger, of_row
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.store.values import Values

# SQL: whether there is anything for this chore.
IS_DUE = loop.is_due("EXISTS (SELECT 1 FROM event_fires AS f WHERE f.due_at <= now())")

_DUE = loop.in_turns(
    """SELECT f.id, f.tenant_id, f.trigger_id AS cause, f.due_at FROM event_fires AS f
    WHERE f.due_at <= :now""",
    "due_at",
)


def run_once(database: Database, values: Values) -> int:
    """Start what events fire, as `loop.run_once`."""
    return loop.run_once(database, values, EVENTS)


def _due(tx: Transaction) -> Sequence[Any]:
    repeated_ends.settle(tx, "event_fires")
    return tx.execute(_DUE, loop.first(tx.now)).all()


@dataclass(frozen=True, slots=True)
class _Fired:
    """A fire that is locked, and its trigger; None when that was deleted."""

    due: Any
    event: Document
    trigger: StoredTrigger | None

    @property
    def skipped(self) -> str | None:
        """Why it starts nothing."""
        if self.trigger is None:
            return "deleted"
        return None if self.trigger.is_enabled else "paused"


# The trigger comes before its fire, as for whoever deletes it.
_LOCK_TRIGGER = f"""
SELECT {COLUMNS} FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :id FOR UPDATE SKIP LOCKED
"""
_EXISTS = "SELECT 1 FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :id"
_LOCK = "SELECT f.event FROM event_fires AS f WHERE f.id = :id AND f.due_at <= :now FOR UPDATE SKIP LOCKED"


def _lock(tx: Transaction, due: Any) -> _Fired | None:
    key = {"tenant": due.tenant_id, "id": due.cause}
    trigger = tx.execute(_LOCK_TRIGGER, key).one_or_none()
    if trigger is None and tx.execute(_EXISTS, key).one_or_none() is not None:
        return None
    locked = tx.execute(_LOCK, {"id": due.id, "now": tx.now}).one_or_none()
    if locked is None:
        return None
    return _Fired(due, locked.event, None if trigger is None else of_row(trigger))


def _requests(_: Transaction, fired: _Fired) -> list[StartRequest]:
    trigger, event = fired.trigger, fired.event
    if trigger is None or fired.skipped is not None:
        return []
    input = matching.input_of(trigger.input, {"event": event})
    return [fires.request(trigger.pipeline_id, event, input, "triggerId", trigger.id)]


def _record(
    tx: Transaction, fired: _Fired, runs: Sequence[CreatedRun], failure: PipeWeaveError | None
) -> int:
    due = fired.due
    fires.end(tx, "event_fires", due.id, runs, failure, fired.skipped)
    if fired.skipped is None:
        last_fire.record(tx, due.tenant_id, due.cause, failure)
    return 1


EVENTS = Source("trigger", _due, _lock, _requests, _record)
