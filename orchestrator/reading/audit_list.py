"""Lists the audit, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.security.access_tokens import TOKEN_ID
from pipeweave.orchestrator.security.audit import ENTRY_ID
from pipeweave.orchestrator.security.sessions import SESSION_ID
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Page

_AFTER_ALL = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows to list; what is None does not matter.

    Args:
        since: at this time or later.
        until: before this time.
    """

    actor: str | None = None
    verb: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None


_PAGE = """
SELECT id, tenant_id, at, source, actor, token_id, session_id, verb, kind, object, given, before, after,
    reason, request_id
FROM audit
WHERE id < :before_id AND {where} ORDER BY id DESC LIMIT :limit
"""
_WHERE = {
    "actor": "actor = :actor",
    "verb": "verb = :verb",
    "object": "object = :object",
    "since": "at >= :since",
    "until": "at < :until",
}


def audit(
    tx: Transaction,
    tenants: Sequence[str] | None,
    page: Page,
    chosen: AuditFilter | None = None,
    *,
    sees_deployment: bool = False,
) -> Document:
    """The rows of these tenants, newest first: {items, nextCursor}.

    Args:
        tenants: None: of every tenant.
        sees_deployment: also rows of what concerns the whole deployment.
    """
    chosen = chosen or AuditFilter()
    after = page.after("audit", UUID)
    parameters: dict[str, Any] = {"before_id": after[0] if after else _AFTER_ALL, "limit": page.limit + 1}
    where = []
    if tenants is not None:
        parameters["tenants"] = list(tenants)
        mine = "tenant_id = ANY(CAST(:tenants AS text[]))"
        where.append(f"({mine} OR tenant_id IS NULL)" if sees_deployment else mine)
    for name, text in _WHERE.items():
        value = getattr(chosen, name)
        if value is not None:
            parameters[name] = value.replace("\0", "") if isinstance(value, str) else _utc(value)
            where.append(text)
    rows = tx.execute(_PAGE.format(where=" AND ".join(where) or "true"), parameters).all()
    return page.cut(rows, "audit", lambda row: (row.id,), _shape)


def _utc(moment: datetime) -> datetime:
    """In UTC: PostgreSQL knows no offsets of 16 hours and more."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in the first or last hours of all years
        return moment.replace(tzinfo=UTC)


def _shape(row: Any) -> Document:
    return {
        "id": ids.show(ENTRY_ID, row.id),
        "at": iso(row.at),
        "tenant": row.tenant_id,
        "source": row.source,
        "actor": row.actor,
        "tokenId": row.token_id and ids.show(TOKEN_ID, row.token_id),
        "sessionId": row.session_id and ids.show(SESSION_ID, row.session_id),
        "verb": row.verb,
        "kind": row.kind,
        "object": row.object,
        "given": row.given,
        "before": row.before,
        "after": row.after,
        "reason": row.reason,
        "requestId": row.request_id,
    }
