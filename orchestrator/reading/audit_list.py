"""Lists the audit, newest first, or hands it out from the oldest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.access import AuditEntry
from pipeweave.orchestrator.domain.utc import in_utc
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_BEFORE_ALL, _AFTER_ALL = UUID(int=0), UUID(int=(1 << 128) - 1)
# Ids have the time of the process that made them, rows that of PostgreSQL.
_CLOCKS_DIFFER = timedelta(days=1)
_MOST_MS = (1 << 48) - 1


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


_COLUMNS = (
    "id, tenant_id AS tenant, at, source, actor, token_id, session_id, verb, kind, object, given, before,"
    " after, reason, request_id"
)
_PAGE = f"""
SELECT {_COLUMNS} FROM audit
WHERE id >= :first AND id < :before_id AND {{where}} ORDER BY id DESC LIMIT :limit
"""
_NEXT = f"""
SELECT {_COLUMNS} FROM audit
WHERE id > :after_id AND id <= :last AND {{where}} ORDER BY id LIMIT :limit
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
    page: PageRequest,
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
    where, parameters = _where(tenants, chosen, sees_deployment)
    first, last = _ids(chosen)
    after = page.after("audit", UUID)
    parameters |= {"first": first, "before_id": min(after[0], last) if after else last}
    parameters["limit"] = page.limit + 1
    rows = tx.execute(_PAGE.format(where=where), parameters).all()
    return page.cut(rows, "audit", lambda row: (row.id,), AuditEntry.of)


def audit_after(
    tx: Transaction,
    tenants: Sequence[str] | None,
    chosen: AuditFilter,
    after: UUID,
    limit: int,
    *,
    sees_deployment: bool = False,
) -> list[tuple[UUID, Document]]:
    """The rows behind this id, the oldest first, with their ids. The arguments are as for `audit`."""
    where, parameters = _where(tenants, chosen, sees_deployment)
    first, last = _ids(chosen)
    parameters |= {"after_id": max(after, first), "last": last, "limit": limit}
    return [(row.id, AuditEntry.of(row)) for row in tx.execute(_NEXT.format(where=where), parameters)]


def _where(
    tenants: Sequence[str] | None, chosen: AuditFilter, sees_deployment: bool
) -> tuple[str, dict[str, Any]]:
    parameters: dict[str, Any] = {}
    where = []
    if tenants is not None:
        parameters["tenants"] = list(tenants)
        mine = "tenant_id = ANY(CAST(:tenants AS text[]))"
        where.append(f"({mine} OR tenant_id IS NULL)" if sees_deployment else mine)
    for name, text in _WHERE.items():
        value = getattr(chosen, name)
        if value is not None:
            parameters[name] = value.replace("\0", "") if isinstance(value, str) else in_utc(value)
            where.append(text)
    return " AND ".join(where) or "true", parameters


def _ids(chosen: AuditFilter) -> tuple[UUID, UUID]:
    """Between which ids the rows of the chosen time lie: so an old page reads no newer rows."""
    first = _BEFORE_ALL if chosen.since is None else _id_at(in_utc(chosen.since), -_CLOCKS_DIFFER)
    return first, _AFTER_ALL if chosen.until is None else _id_at(in_utc(chosen.until), _CLOCKS_DIFFER)


def _id_at(moment: datetime, off: timedelta) -> UUID:
    ms = int((moment.timestamp() + off.total_seconds()) * 1000)
    return ids.first_id_at(min(max(ms, 0), _MOST_MS))
