"""Stores named views: filters of a screen of the dashboard that a tenant shares."""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Transaction

VIEW_ID = "view"
# Of a tenant, on all screens.
MOST_VIEWS = 50

_REPLACE = """
UPDATE views SET query = :query, saved_by = :saved_by, saved_at = :now
WHERE tenant_id = :tenant AND screen = :screen AND name = :name RETURNING id
"""
_COUNT = "SELECT count(*) FROM views WHERE tenant_id = :tenant"
_INSERT = """
INSERT INTO views (id, tenant_id, screen, name, query, saved_by, saved_at)
VALUES (:id, :tenant, :screen, :name, :query, :saved_by, :now)
"""


def save(
    tx: Transaction, tenant: str, screen: str, name: str, query: str, *, saved_by: str
) -> tuple[UUID, bool]:
    """Store a view; one of this screen with this name is replaced.

    Args:
        query: of the screen's address, without the question mark.
        saved_by: the name of the token.

    Returns:
        Its id, and whether it is new.

    Raises:
        LimitExceeded: the tenant has as many views as it may have.
    """
    # So that two who save at the same time do not both become the last that may.
    advisory_locks.hold_tenant_until_commit(tx, advisory_locks.VIEWS, tenant)
    parameters = {
        "tenant": tenant,
        "screen": screen,
        "name": name,
        "query": query,
        "saved_by": saved_by,
        "now": tx.now,
    }
    replaced = tx.execute(_REPLACE, parameters).scalar_one_or_none()
    if replaced is not None:
        return UUID(str(replaced)), False
    if tx.execute(_COUNT, parameters).scalar_one() >= MOST_VIEWS:
        raise LimitExceeded(
            f"the tenant has {MOST_VIEWS} views, as many as it may have", hint="delete one that nobody uses"
        )
    id = tx.new_id()
    tx.execute(_INSERT, {**parameters, "id": id})
    return id, True


_DELETE = "DELETE FROM views WHERE id = :id AND tenant_id = :tenant"


def delete(tx: Transaction, tenant: str, view_id: str) -> None:
    """Delete a view.

    Raises:
        NotFound: the tenant has no such view.
    """
    parameters = {"id": ids.read(VIEW_ID, view_id), "tenant": tenant}
    if not tx.execute(_DELETE, parameters).rowcount:
        raise NotFound(f"view {view_id!r} not found", hint="GET /api/views lists them")
