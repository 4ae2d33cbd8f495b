"""Creates and stops bulk changes. run_changes.py changes their runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError
from pipeweave.orchestrator.operations import progress
from pipeweave.orchestrator.operations.bulk_requests import BulkRequest
from pipeweave.orchestrator.operations.choosing import CountedRuns
from pipeweave.orchestrator.operations.progress import COMPLETED, RUNNING, Table
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.store.database import Transaction, to_json

TABLE = Table(
    "bulk_changes",
    "bulk change",
    ids.BULK,
    "action, options, changed AS done, NULL AS canary, NULL AS canary_ended_at, NULL AS stop_percent",
)

_CREATE = f"""
INSERT INTO bulk_changes (id, tenant_id, action, filter, options, token, status, total, total_is_capped, most,
    per_second, created_at, created_by, finished_at)
VALUES (:id, :tenant, :action, CAST(:filter AS jsonb), CAST(:options AS jsonb), :token,
    CASE WHEN :is_empty THEN '{COMPLETED}' ELSE '{RUNNING}' END, :total, :is_capped, :most,
    :per_second, :now, :by, CASE WHEN :is_empty THEN CAST(:now AS timestamptz) END)
ON CONFLICT (tenant_id, token) WHERE token IS NOT NULL DO NOTHING RETURNING id
"""


def create(tx: Transaction, tenant: str, request: BulkRequest, counted: CountedRuns) -> UUID:
    """Create a bulk change of the runs that match; returns its id.

    Args:
        counted: how many these are.

    Raises:
        Conflict: an earlier request with the same token asked for something else.
        Unavailable: nothing new is accepted during maintenance.
    """
    maintenance_mode.admit(tx)
    parameters = {
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
    made: UUID | None = tx.execute(_CREATE, parameters).scalar_one_or_none()
    return _earlier(tx, tenant, request) if made is None else made


def cancel(tx: Transaction, tenant: str, bulk: UUID) -> None:
    """Stop a bulk change; see `progress.cancel`."""
    progress.cancel(tx, TABLE, tenant, bulk)


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
    bulk_id: UUID = row.id
    return bulk_id


def _asked(request: BulkRequest) -> tuple[object, ...]:
    chosen = request.selection.to_json()
    return request.action, chosen, request.options(), request.most, request.per_second
