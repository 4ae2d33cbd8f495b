"""The chore of the tick that starts the pipelines that hooks name."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain.triggered_by import EVENT, TriggeredBy
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts.hooks import hook_ends, repeated_ends
from pipeweave.orchestrator.starts.triggers import starting
from pipeweave.orchestrator.state import deployment_mode, due_work
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# One tick starts at most this many; the next tick goes on.
BATCH = 200

# SQL: whether there is anything for this chore.
IS_DUE = f"""(EXISTS (SELECT 1 FROM hook_fires AS f WHERE f.due_at <= now() AND f.url IS NULL)
    AND {deployment_mode.MODE} = '{deployment_mode.RUNNING}')"""

_DUE = due_work.in_turns(
    """SELECT f.id, f.tenant_id, f.due_at FROM hook_fires AS f
    WHERE f.due_at <= :now AND f.url IS NULL""",
    "due_at",
)


def run_once(database: Database, values: Values) -> int:
    """Start what is due. Nothing starts unless the deployment accepts new work; it waits for that.

    Returns:
        How many were decided about.

    Raises:
        PartlyFailed: some could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    if not due_work.is_accepting(database):
        return 0
    with database.statements() as tx:
        repeated_ends.settle(tx, "hook_fires")
        due = list(tx.execute(_DUE, due_work.first(BATCH, tx.now)))
    isolation = Isolation(database)
    done = 0
    for each in due:
        done += isolation.run(
            lambda each=each: _start(database, values, each.id),  # type: ignore[misc]
            tenant=each.tenant_id,
            hook=each.id,
        )
    return isolation.finish(done)


def _start(database: Database, values: Values, id: UUID) -> int:
    """Start the run of one hook; when it is refused, note that instead."""
    try:
        return database.run(lambda tx: start(tx, values, id))
    except Unavailable:
        raise
    except PipeWeaveError as error:
        log.warning("hook.failed", extra={"hook": str(id), "error_code": error.code, "reason": error.detail})
        refused = error
    return database.run(lambda tx: start(tx, values, id, failure=refused))


_LOCK = """
SELECT f.tenant_id, f.pipeline_id, f.hook, f.target_pipeline, f.event FROM hook_fires AS f
WHERE f.id = :id AND f.due_at <= :now AND f.url IS NULL FOR UPDATE SKIP LOCKED
"""


def start(tx: Transaction, values: Values, id: UUID, *, failure: PipeWeaveError | None = None) -> int:
    """Start the run of a hook. Nothing happens when that is done, or another transaction does it.

    Args:
        failure: why no run can start; it is noted.

    Returns:
        1 if it was decided about.

    Raises:
        PipeWeaveError: no run can start.
    """
    found: Any = tx.execute(_LOCK, {"id": id, "now": tx.now}).one_or_none()
    if found is None:
        return 0
    if failure is not None:
        hook_ends.end(tx, id, "failed", code=failure.code, error=failure.detail)
        return 1
    key = event_documents.key_of(found.event)
    name = f"{found.pipeline_id}.{found.hook}"
    by = TriggeredBy(EVENT, name, key)
    metadata = {"hook": name, "event": found.event["type"], "of": key}
    given = {"event": found.event}
    run = starting.start(tx, values, found.tenant_id, found.target_pipeline, given, metadata, by)
    hook_ends.end(tx, id, "fired", run_id=run.id)
    return 1
