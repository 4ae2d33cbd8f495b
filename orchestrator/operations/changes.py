"""Creates and stops bulk changes. working.py works them off."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, NotFound
from pipeweave.orchestrator.operations.asked import BulkRequest
from pipeweave.orchestrator.operations.choosing import Counted
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.store.database import Transaction, to_json

RUNNING, COMPLETED, CANCELLED = "running", "completed", "cancelled"

_CREATE = f"""
INSERT INTO bulk_changes (id, tenant_id, action, filter, options, token, status, total, total_is_capped, most,
    per_second, created_at, created_by, finished_at)
VALUES (:id, :tenant, :action, CAST(:filter AS jsonb), CAST(:options AS jsonb), :token,
    CASE WHEN :is_empty THEN '{COMPLETED}' ELSE '{RUNNING}' END, :total, :is_capped, :most,
    :per_second, :now, :by, CASE WHEN :is_empty THEN CAST(:now AS timestamptz) END)
ON CONFLICT (tenant_id, token) WHERE token IS NOT NULL DO NOTHING RETURNING id
"""


def create(tx: Transaction, tenant: str, request: BulkRequest, counted: Counted) -> UUID:
    """Create a bulk change of the runs that match; returns its id.

    Args:
        counted: how many these are.

    Raises:
        Conflict: an earlier request with the same token asked for something else.
        Unavailable: nothing new is accepted during maintenance.
    """
    maintenance_mode.admit(tx)
    given = {
        "id": tx.new_id(),
        "tenant": tenant,
        "action": request.action.value,
        "filter": to_json(request.selection.to_json()),
        "options": to_json(request.options()),
        "token": request.token,
        "total": counted.matched,
        "is_capped": not counted.is_complete,
        "is_empty": counted.matched == 0 and counted.is_complete,
        "most": request.most,
        "per_second": request.per_second,
        "now": tx.now,
        "by": request.by,
    }
    made: UUID | None = tx.execute(_CREATE, given).scalar_one_or_none()
    return _earlier(tx, tenant, request) if made is None else made


_OF_TOKEN = """
SELECT b.id, b.action, b.filter, b.options, b.most, b.per_second, b.created_by
FROM bulk_changes AS b WHERE b.tenant_id = :tenant AND b.token = :token
"""


def _earlier(tx: Transaction, tenant: str, request: BulkRequest) -> UUID:
    row: Any = tx.execute(_OF_TOKEN, {"tenant": tenant, "token": request.token}).one()
    before = BulkRequest.of_row(row)
    if _asked(before) != _asked(request):
        shown = ids.show(ids.BULK, row.id)
        raise Conflict(
            f"the key {request.token!r} is that of bulk change {shown}, which asked for something else",
            errors=[FieldError("idempotencyKey", f"is that of bulk change {shown}", "conflict")],
            hint="send another key, or the same request again",
        )
    found: UUID = row.id
    return found


def _asked(request: BulkRequest) -> tuple[object, ...]:
    chosen = request.selection.to_json()
    return request.action, chosen, request.options(), request.most, request.per_second


_CANCEL = f"""
UPDATE bulk_changes SET status = '{CANCELLED}', finished_at = :now
WHERE id = :id AND tenant_id = :tenant AND status = '{RUNNING}'
"""
_STATUS = "SELECT status FROM bulk_changes WHERE id = :id AND tenant_id = :tenant"


def cancel(tx: Transaction, tenant: str, bulk: UUID) -> None:
    """Stop a bulk change: what it has changed stays so, the other runs stay as they are.

    Raises:
        NotFound: the tenant has no such bulk change.
        Conflict: it has ended.
    """
    key = {"id": bulk, "tenant": tenant}
    if tx.execute(_CANCEL, {**key, "now": tx.now}).rowcount:
        return
    status = tx.execute(_STATUS, key).scalar_one_or_none()
    if status is None:
        raise no_bulk_change(bulk)
    raise Conflict(f"bulk change {ids.show(ids.BULK, bulk)} is already {status}")


def no_bulk_change(bulk: UUID) -> NotFound:
    """The error for a bulk change that does not exist or belongs to another tenant."""
    return NotFound(f"bulk change {ids.show(ids.BULK, bulk)} not found")
