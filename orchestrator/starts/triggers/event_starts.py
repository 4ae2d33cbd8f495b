"""The chore of the tick that starts what events fire.

Each fire has a transaction of its own, which locks it, starts its run and notes it: all of it, or nothing. So
a process may die at any moment, and several may do this at once.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain.triggered_by import EVENT, TriggeredBy
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.starts.triggers import matching, starting
from pipeweave.orchestrator.starts.triggers.row import COLUMNS, StoredTrigger, of_row
from pipeweave.orchestrator.starts.triggers.starting import MAX_ERROR_CHARS
from pipeweave.orchestrator.state import deployment_mode, due_work
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# One tick starts at most this many; the next tick goes on.
BATCH = 200

# SQL: whether there is anything for this chore.
IS_DUE = f"""(EXISTS (SELECT 1 FROM event_fires AS f WHERE f.due_at <= now())
    AND {deployment_mode.MODE} = '{deployment_mode.RUNNING}')"""

_DUE = due_work.in_turns(
    "SELECT f.id, f.tenant_id, f.trigger_id, f.due_at FROM event_fires AS f WHERE f.due_at <= :now", "due_at"
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
        repeated_ends.settle(tx, "event_fires")
        due = list(tx.execute(_DUE, due_work.first(BATCH, tx.now)))
    isolation = Isolation(database)
    done = 0
    for each in due:
        done += isolation.run(
            lambda each=each: _fire(database, values, each),  # type: ignore[misc]
            tenant=each.tenant_id,
            trigger=each.trigger_id,
        )
    return isolation.finish(done)


def _fire(database: Database, values: Values, due: Any) -> int:
    """Start the run of one fire; when it is refused, note that instead."""
    try:
        return database.run(lambda tx: fire(tx, values, due.tenant_id, due.trigger_id, due.id))
    except Unavailable:
        raise
    except PipeWeaveError as error:
        names = {"tenant": due.tenant_id, "trigger": due.trigger_id}
        log.warning("trigger.failed", extra={**names, "error_code": error.code, "reason": error.detail})
        refused = error
    return database.run(lambda tx: fire(tx, values, due.tenant_id, due.trigger_id, due.id, failure=refused))


# The trigger comes before its fire, as for whoever deletes it.
_LOCK_TRIGGER = f"""
SELECT {COLUMNS} FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :id FOR UPDATE SKIP LOCKED
"""
_EXISTS = "SELECT 1 FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :id"
_LOCK = """
SELECT f.run_id, f.event, f.depth FROM event_fires AS f
WHERE f.id = :id AND f.due_at <= :now FOR UPDATE SKIP LOCKED
"""


def fire(
    tx: Transaction,
    values: Values,
    tenant: str,
    trigger_id: str,
    id: UUID,
    *,
    failure: PipeWeaveError | None = None,
) -> int:
    """Start the run of a fire. Nothing happens when that is done, or another transaction does it.

    Args:
        failure: why no run can start; it is noted.

    Returns:
        1 if it was decided about.

    Raises:
        PipeWeaveError: no run can start.
    """
    key = {"tenant": tenant, "id": trigger_id}
    found = tx.execute(_LOCK_TRIGGER, key).one_or_none()
    if found is None and tx.execute(_EXISTS, key).one_or_none() is not None:
        return 0
    locked = tx.execute(_LOCK, {"id": id, "now": tx.now}).one_or_none()
    if locked is None:
        return 0
    if found is None or not found.enabled:
        _end(tx, id, "skipped", reason="deleted" if found is None else "paused")
    elif failure is not None:
        _end(tx, id, "failed", failure=failure)
        starting.note_failure(tx, tenant, trigger_id, failure)
    else:
        _end(tx, id, "fired", run_id=_start(tx, values, of_row(found), locked))
        tx.execute(_FIRED, {**key, "now": tx.now})
    return 1


def _start(tx: Transaction, values: Values, trigger: StoredTrigger, fire: Any) -> UUID:
    key = event_documents.key_of(fire.event)
    metadata = {"triggerId": trigger.id, "event": fire.event["type"], "of": key}
    by = TriggeredBy(EVENT, trigger.id, key)
    given = matching.input_of(trigger.input, {"event": fire.event})
    return starting.start(tx, values, trigger.tenant, trigger.pipeline_id, given, metadata, by).id


_END = """
UPDATE event_fires SET outcome = :outcome, reason = :reason, error_code = :code, error = :error,
    started_run_id = :run_id, due_at = NULL, fired_at = :now
WHERE id = :id AND due_at IS NOT NULL
"""
_FIRED = """
UPDATE triggers SET last_fire_at = :now, last_error_at = NULL, last_error_code = NULL, last_error = NULL
WHERE tenant_id = :tenant AND id = :id
"""


def _end(
    tx: Transaction,
    id: UUID,
    outcome: str,
    *,
    reason: str | None = None,
    run_id: UUID | None = None,
    failure: PipeWeaveError | None = None,
) -> None:
    parameters = {
        "id": id,
        "outcome": outcome,
        "reason": reason,
        "code": failure and failure.code,
        "error": failure and failure.detail[:MAX_ERROR_CHARS],
        "run_id": run_id,
        "now": tx.now,
    }
    tx.execute(_END, parameters)
