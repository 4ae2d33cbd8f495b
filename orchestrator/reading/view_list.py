"""Lists the named views of a tenant."""

from __future__ import annotations

from pipeweave.orchestrator.documents.views import NamedView
from pipeweave.orchestrator.registry.views import MOST_VIEWS
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
    return [NamedView.of(row) for row in tx.execute(_LIST, parameters)]
