"""Read models of triggers: the list, and one trigger with its last fires. No secret is in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeweave.orchestrator.documents.triggers import (
    SignalOfTrigger,
    Trigger,
    TriggerDetail,
    TriggerError,
    TriggerFire,
)
from pipeweave.orchestrator.domain.json_shapes import run_id
from pipeweave.orchestrator.starts.triggers.row import COLUMNS, WEBHOOK, not_found
from pipeweave.orchestrator.starts.triggers.spec import TriggerSignal
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

LAST_SHOWN = 10

_TRIGGERS = f"""
SELECT {COLUMNS} FROM triggers AS t
WHERE t.tenant_id = :tenant AND {{where}} ORDER BY t.id LIMIT :limit
"""


def triggers(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    *,
    pipeline_id: str | None = None,
    kind: str | None = None,
) -> Document:
    """The tenant's triggers by id, all of them, or those of one pipeline or kind: {items, nextCursor}."""
    after = page.after("triggers", str)
    where = "t.id > :after" if after else "true"
    if pipeline_id is not None:
        where += " AND t.pipeline_id = :pipeline_id"
    if kind is not None:
        where += " AND t.kind = :kind"
    parameters = {"tenant": tenant, "after": after and after[0], "pipeline_id": pipeline_id, "kind": kind}
    rows = tx.execute(_TRIGGERS.format(where=where), {**parameters, "limit": page.limit + 1}).all()
    return page.cut(rows, "triggers", lambda row: (row.id,), lambda row: _trigger(tx, row))


# By the index on the time: the newest first.
_DELIVERIES = """
SELECT f.key, f.fired_at, 'fired' AS outcome, CAST(NULL AS text) AS reason,
    CAST(NULL AS text) AS error_code, CAST(NULL AS text) AS error, f.run_id AS started,
    (SELECT r.status FROM runs AS r WHERE r.id = f.run_id) AS run_status
FROM trigger_fires AS f
WHERE f.tenant_id = :tenant AND f.trigger_id = :id ORDER BY f.fired_at DESC LIMIT :most
"""
_EVENTS = """
SELECT f.run_id AS key, coalesce(f.fired_at, f.created_at) AS fired_at, f.outcome, f.reason, f.error_code,
    f.error, f.started_run_id AS started,
    (SELECT r.status FROM runs AS r WHERE r.id = f.started_run_id) AS run_status
FROM event_fires AS f
WHERE f.tenant_id = :tenant AND f.trigger_id = :id ORDER BY f.id DESC LIMIT :most
"""


def trigger(tx: Transaction, tenant: str, trigger_id: str) -> Document:
    """One trigger with its last fires.

    Raises:
        NotFound: the tenant has no such trigger.
    """
    parameters = {"tenant": tenant, "id": trigger_id, "limit": 1}
    row = tx.execute(_TRIGGERS.format(where="t.id = :id"), parameters).one_or_none()
    if row is None:
        raise not_found(tx, tenant, trigger_id)
    statement = _DELIVERIES if row.kind == WEBHOOK else _EVENTS
    fires = tx.execute(statement, {"tenant": tenant, "id": trigger_id, "most": LAST_SHOWN}).all()
    return _trigger(tx, row, TriggerDetail, last_fires=[_fire(each) for each in fires])


def _trigger(tx: Transaction, row: Any, answer: type[Trigger] = Trigger, **more: Any) -> Document:
    until = row.old_secret_until
    return answer.of(
        row,
        paused=not row.enabled,
        on=row.event,
        allow_self=row.allows_self,
        headers=list(row.headers),
        signal=None if row.signal is None else SignalOfTrigger.of(TriggerSignal.of_json(row.signal)),
        path=f"/api/webhooks/{row.tenant_id}/{row.id}" if row.kind == WEBHOOK else None,
        old_secret_until=until if until is not None and until > tx.now else None,
        last_error=_error(row.last_error_code, row.last_error, row.last_error_at),
        **more,
    )


def _fire(row: Any) -> Document:
    return TriggerFire.of(
        row,
        key=row.key if isinstance(row.key, str) else run_id(row.key),
        run_id=row.started,
        error=_error(row.error_code, row.error, row.fired_at),
    )


def _error(code: str | None, message: str | None, at: datetime) -> Document | None:
    return None if code is None else TriggerError.of(code=code, message=message, at=at)
