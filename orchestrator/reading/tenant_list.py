"""Lists the tenants that a token may enter, with their limits, and shows the use of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.access import Tenant, TenantUse
from pipeweave.orchestrator.queueing import run_slots
from pipeweave.orchestrator.security.access_tokens import EVERY_TENANT
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_COLUMNS = "id, created_at, max_active_runs"

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
        raise NotFound(f"tenant {id!r} not found", hint="PUT /api/tenants/{id} makes it")
    return row


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
