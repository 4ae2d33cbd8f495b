"""Lists access tokens, without their secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.access import AccessToken
from pipeweave.orchestrator.security.access_tokens import EVERY_TENANT
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_AFTER_ALL = UUID(int=(1 << 128) - 1)

_COLUMNS = """id, name, tenants, scopes, created_at, expires_at, revoked_at, used_at, made_by,
    made_by_subject, groups, CAST(networks AS text[]) AS networks, service_id, certificate"""

_LIST = f"SELECT {_COLUMNS} FROM access_tokens ORDER BY id DESC LIMIT 1000"


def list_tokens(tx: Transaction) -> list[Document]:
    """The newest 1,000 tokens, newest first, without their secret text."""
    return [_token(tx, row) for row in tx.execute(_LIST)]


_PAGE = f"""
SELECT {_COLUMNS} FROM access_tokens
WHERE id < :before AND (:is_all OR tenants <@ CAST(:tenants AS text[])) ORDER BY id DESC LIMIT :limit
"""


def tokens(tx: Transaction, tenants: Sequence[str], page: PageRequest) -> Document:
    """The tokens that are valid for no other tenants than these, newest first: {items, nextCursor}."""
    after = page.after("tokens", UUID)
    parameters = {
        "before": after[0] if after else _AFTER_ALL,
        "is_all": EVERY_TENANT in tenants,
        "tenants": list(tenants),
        "limit": page.limit + 1,
    }
    rows = tx.execute(_PAGE, parameters).all()
    return page.cut(rows, "tokens", lambda row: (row.id,), lambda row: _token(tx, row))


def _token(tx: Transaction, row: Any) -> Document:
    is_open = row.expires_at is None or row.expires_at > tx.now
    return AccessToken.of(row, is_valid=row.revoked_at is None and is_open)
