"""The chore of the tick that starts the pipelines that hooks name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import fires, loop
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.starts.loop import Source
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values

# SQL: whether there is anything for this chore.
IS_DUE = loop.is_due("EXISTS (SELECT 1 FROM hook_fires AS f WHERE f.due_at <= now() AND f.url IS NULL)")

_DUE = loop.in_turns(
    """SELECT f.id, f.tenant_id, f.id AS cause, f.due_at FROM hook_fires AS f
    WHERE f.due_at <= :now AND f.url IS NULL""",
    "due_at",
)


def run_once(database: Database, values: Values) -> int:
    """Start the pipelines of hooks, as `loop.run_once`."""
    return loop.run_once(database, values, HOOKS)


def _due(tx: Transaction) -> Sequence[Any]:
    repeated_ends.settle(tx, "hook_fires")
    return tx.execute(_DUE, loop.first(tx.now)).all()


_LOCK = """
SELECT f.id, f.pipeline_id, f.hook, f.target_pipeline, f.event FROM hook_fires AS f
WHERE f.id = :id AND f.due_at <= :now AND f.url IS NULL FOR UPDATE SKIP LOCKED
"""


def _lock(tx: Transaction, due: Any) -> Any:
    return tx.execute(_LOCK, {"id": due.id, "now": tx.now}).one_or_none()


def _requests(_: Transaction, hook: Any) -> list[StartRequest]:
    name = f"{hook.pipeline_id}.{hook.hook}"
    return [fires.request(hook.target_pipeline, hook.event, {"event": hook.event}, "hook", name)]


def _record(tx: Transaction, hook: Any, runs: Sequence[CreatedRun], failure: PipeWeaveError | None) -> int:
    fires.end(tx, "hook_fires", hook.id, runs, failure)
    return 1


HOOKS = Source("hook", _due, _lock, _requests, _record)
