"""Lists the tenants that a token may enter, with their limits, and shows the use of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.access import (
    Tenant,
    TenantDeletion,
    TenantLimitsState,
    TenantLimitsUsed,
    TenantUse,
)
from pipeweave.orchestrator.queueing import quotas, run_slots, tenant_deletions, tenant_limits
from pipeweave.orchestrator.security.access_tokens import EVERY_TENANT
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_COLUMNS = "id, created_at, max_active_runs, takes_only_signed, disabled_at, disabled_by, disabled_reason"

_PAGE = f"""
SELECT {_COLUMNS} FROM tenants
WHERE id > :after AND (:is_all OR id = ANY(CAST(:tenants AS text[]))) ORDER BY id LIMIT :limit
"""


def tenants(tx: Transaction, allowed: Sequence[str], page: PageRequest) -> Document:
    """The tenants of a token, by id: {items, nextCursor}.

    Args:
        allowed: the tenants that the token is valid for, or `*`.
    """
    after = page.after("tenants", str)
    parameters = {
        "after": after[0] if after else "",
        "is_all": EVERY_TENANT in allowed,
        "tenants": list(allowed),
        "limit": page.limit + 1,
    }
    return page.cut(tx.execute(_PAGE, parameters).all(), "tenants", lambda row: (row.id,), Tenant.of)


def tenant(tx: Transaction, id: str) -> Document:
    """One tenant.

    Raises:
        NotFound: there is no such tenant yet.
    """
    return Tenant.of(_row(tx, id))


def _row(tx: Transaction, id: str) -> Any:
    row = tx.execute(f"SELECT {_COLUMNS} FROM tenants WHERE id = :id", {"id": id}).one_or_none()
    if row is None:
        raise _not_found(id)
    return row


def _not_found(id: str) -> NotFound:
    return NotFound(f"tenant {id!r} not found", hint="PUT /api/tenants/{id} makes it")


_PAUSE = "SELECT paused_at, reason FROM pauses WHERE tenant_id = :id AND task_id = ''"


def tenant_in_use(tx: Transaction, id: str) -> Document:
    """One tenant with its active and waiting runs, and its pause.

    Raises:
        NotFound: there is no such tenant yet.
    """
    row, slots = _row(tx, id), run_slots.slots_of(tx, id)
    paused = tx.execute(_PAUSE, {"id": id}).one_or_none()
    return TenantUse.of(
        row,
        active_runs=slots.active,
        pending_runs=slots.waiting,
        paused_at=paused and paused.paused_at,
        pause_reason=paused and paused.reason,
    )


def limits(tx: Transaction, id: str) -> Document:
    """What an operator allows a tenant, and how much of it is used.

    Raises:
        NotFound: there is no such tenant yet.
    """
    row = tenant_limits.row_with_use(tx, id)
    if row is None:
        raise _not_found(id)
    counted = row.open_task_runs
    used = TenantLimitsUsed.of(
        row,
        runs_today=None if row.runs_per_day is None else row.used_runs,
        resets_at=quotas.midnight(tx.now.astimezone(UTC).date()),
        open_task_runs=None if counted is None else quotas.open_task_runs(tx, id, counted + 1),
        stored_bytes=None if row.stored_at is None else row.used_bytes,
        schedules=row.used_schedules,
    )
    return TenantLimitsState.of(row, used=used)


def deletion(tx: Transaction, id: str) -> Document:
    """How far the last deletion of a tenant of this name is.

    Raises:
        NotFound: no such tenant was deleted.
    """
    row = tenant_deletions.find(tx, id)
    if row is None:
        raise NotFound(f"tenant {id!r} was not deleted", hint="DELETE /api/tenants/{id} deletes it")
    return TenantDeletion.of(row)
