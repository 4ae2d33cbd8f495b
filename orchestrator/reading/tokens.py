"""Lists access tokens, without their secrets."""

from __future__ import annotations

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.security.access_tokens import TOKEN_ID
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

_LIST = """
SELECT id, name, tenants, scopes, created_at, expires_at, revoked_at FROM access_tokens
ORDER BY id DESC LIMIT 1000
"""


def list_tokens(tx: Transaction) -> list[Document]:
    """The newest 1,000 tokens, newest first, without their secret text."""
    return [
        {
            "id": ids.show(TOKEN_ID, row.id),
            "name": row.name,
            "tenants": list(row.tenants),
            "scopes": list(row.scopes),
            "createdAt": iso(row.created_at),
            "expiresAt": iso(row.expires_at),
            "revokedAt": iso(row.revoked_at),
            "isValid": row.revoked_at is None and (row.expires_at is None or row.expires_at > tx.now),
        }
        for row in tx.execute(_LIST)
    ]
