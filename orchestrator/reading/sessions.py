"""Lists the sessions of browsers, without their secrets."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pipeweave.orchestrator.documents.access import BrowserSession
from pipeweave.orchestrator.security.access_tokens import EVERY_TENANT
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_AFTER_ALL = UUID(int=(1 << 128) - 1)

_PAGE = """
SELECT s.id, s.agent, s.created_at, s.seen_at, s.expires_at, t.id AS token_id, s.person,
    COALESCE(t.name, 'oidc:' || s.subject) AS token_name
FROM ui_sessions AS s LEFT JOIN access_tokens AS t ON t.id = s.token_id
WHERE s.id < :before AND s.expires_at > :now
  AND (s.subject IS NOT NULL OR t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now))
  AND (:is_all OR COALESCE(s.tenants, t.tenants) <@ CAST(:tenants AS text[]))
ORDER BY s.id DESC LIMIT :limit
"""


def sessions(tx: Transaction, tenants: Sequence[str], page: PageRequest) -> Document:
    """The open sessions that are valid for no other tenants than these, newest first: {items,
    nextCursor}.
    """
    after = page.after("sessions", UUID)
    parameters = {
        "before": after[0] if after else _AFTER_ALL,
        "now": tx.now,
        "is_all": EVERY_TENANT in tenants,
        "tenants": list(tenants),
        "limit": page.limit + 1,
    }
    return page.cut(tx.execute(_PAGE, parameters).all(), "sessions", lambda row: (row.id,), BrowserSession.of)
