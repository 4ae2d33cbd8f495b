"""Read models of bulk changes: how far each is, and what became of its runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.operations import BulkChange, BulkRun
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.operations.bulk_changes import TABLE
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_COLUMNS = """SELECT b.id, b.action, b.filter, b.options, b.status, b.total, b.total_is_capped,
    b.changed, b.skipped, b.most, b.per_second, b.created_at, b.created_by, b.finished_at
FROM bulk_changes AS b WHERE b.tenant_id = :tenant"""
_ONE = f"{_COLUMNS} AND b.id = :id"
_LIST = f"{_COLUMNS} AND (CAST(:after AS uuid) IS NULL OR b.id < :after) ORDER BY b.id DESC LIMIT :limit"


def bulk_change(tx: Transaction, tenant: str, bulk: UUID) -> Document:
    """One bulk change with its progress.

    Raises:
        NotFound: the tenant has no such bulk change.
    """
    row = tx.execute(_ONE, {"tenant": tenant, "id": bulk}).one_or_none()
    if row is None:
        raise TABLE.missing(bulk)
    return _document(row)


def bulk_change_list(tx: Transaction, tenant: str, page: PageRequest) -> Document:
    """The bulk changes of a tenant, newest first: {items, nextCursor}."""
    after = page.after_id("bulk")
    rows = tx.execute(_LIST, {"tenant": tenant, "after": after, "limit": page.limit + 1}).all()
    return page.cut(rows, "bulk", lambda row: (row.id,), _document)


def _document(row: Any) -> Document:
    return BulkChange.of(
        row,
        reason=row.options.get("reason"),
        from_step=row.options.get("fromStep"),
        version=row.options.get("version"),
        limit=row.most,
        duration_ms=duration_ms(row.created_at, row.finished_at),
    )


# Each outcome by itself, because there is an index of the skipped ones alone.
_FROM_RUNS = """SELECT c.run_id, c.is_changed, c.new_run_id, c.error_code, c.error, c.at
FROM bulk_change_runs AS c
WHERE c.bulk_id = :bulk AND (CAST(:after AS uuid) IS NULL OR c.run_id > :after)"""
_RUNS = f"{_FROM_RUNS} ORDER BY c.run_id LIMIT :limit"
_CHANGED = f"{_FROM_RUNS} AND c.is_changed ORDER BY c.run_id LIMIT :limit"
_SKIPPED = f"{_FROM_RUNS} AND NOT c.is_changed ORDER BY c.run_id LIMIT :limit"


def run_list(
    tx: Transaction, tenant: str, bulk: UUID, page: PageRequest, *, outcome: str | None = None
) -> Document:
    """The runs that a bulk change has come to, in the order of their ids: {items, nextCursor}.

    Args:
        outcome: `changed` or `skipped`; None for both.

    Raises:
        NotFound: the tenant has no such bulk change.
    """
    bulk_change(tx, tenant, bulk)
    parameters = {"bulk": bulk, "after": page.after_id("bulk-runs"), "limit": page.limit + 1}
    match outcome:
        case "changed":
            rows = tx.execute(_CHANGED, parameters).all()
        case "skipped":
            rows = tx.execute(_SKIPPED, parameters).all()
        case _:
            rows = tx.execute(_RUNS, parameters).all()
    return page.cut(rows, "bulk-runs", lambda row: (row.run_id,), _run)


def _run(row: Any) -> Document:
    return BulkRun.of(row, outcome="changed" if row.is_changed else "skipped")
