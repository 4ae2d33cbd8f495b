"""Lists the named views of a tenant."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.registry.views import MOST_VIEWS, VIEW_ID
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

_LIST = """
SELECT id, screen, name, query, saved_by, saved_at FROM views
WHERE tenant_id = :tenant AND (CAST(:screen AS text) IS NULL OR screen = :screen)
ORDER BY screen, lower(name), name LIMIT :most
"""


def views(tx: Transaction, tenant: str, screen: str | None = None) -> list[Document]:
    """The views of one screen, or of all, by name."""
    parameters = {"tenant": tenant, "screen": screen, "most": MOST_VIEWS}
    return [_shape(row) for row in tx.execute(_LIST, parameters)]


def _shape(row: Any) -> Document:
    return {
        "id": ids.show(VIEW_ID, row.id),
        "screen": row.screen,
        "name": row.name,
        "query": row.query,
        "savedBy": row.saved_by,
        "savedAt": iso(row.saved_at),
    }
