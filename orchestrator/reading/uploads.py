"""Read models of temp uploads: one, the list, and their numbers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.uploads import Upload, UploadStats
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.storage.references import ObjectRef

_COLUMNS = """u.id, u.storage_path, u.filename, u.mime_type, u.size_bytes, u.sha256, u.uploaded_by,
u.uploaded_at, u.expires_at, u.claimed_by_run_id, u.deleted_at"""

_ONE = f"SELECT {_COLUMNS} FROM temp_uploads AS u WHERE u.id = :id AND u.tenant_id = :tenant"


def upload(tx: Transaction, tenant: str, id: UUID, default_backend: str) -> Document:
    """One upload, also a deleted one.

    Raises:
        NotFound: the tenant has no such upload.
    """
    row = tx.execute(_ONE, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        shown = ids.show(ids.UPLOAD, id)
        raise NotFound(f"upload {shown} not found", uploadId=shown)
    return _shape(tx, row, default_backend)


_LIST = f"""
SELECT {_COLUMNS} FROM temp_uploads AS u
WHERE u.tenant_id = :tenant AND u.id < :before ORDER BY u.id DESC LIMIT :limit
"""
_AFTER_ALL = UUID(int=(1 << 128) - 1)


def uploads(tx: Transaction, tenant: str, page: PageRequest, default_backend: str) -> Document:
    """The uploads of a tenant, newest first: {items, nextCursor}."""
    after = page.after("uploads", UUID)
    parameters = {"tenant": tenant, "before": after[0] if after else _AFTER_ALL, "limit": page.limit + 1}
    rows = tx.execute(_LIST, parameters).all()
    return page.cut(rows, "uploads", lambda row: (row.id,), lambda row: _shape(tx, row, default_backend))


def _shape(tx: Transaction, row: Any, default_backend: str) -> Document:
    place = ObjectRef.parse(row.storage_path, default_backend)
    is_claimed = row.claimed_by_run_id is not None
    return Upload.of(
        row,
        upload_id=row.id,
        storage_path=place.path,
        storage_backend_id=place.backend,
        size=row.size_bytes,
        expired=not is_claimed and row.expires_at <= tx.now,
        claimed=is_claimed,
        deleted=row.deleted_at is not None,
    )


# Rows of deleted uploads go after 30 days, so this reads no more than a month of one tenant.
_STATS = """
SELECT count(*) AS total, coalesce(sum(u.size_bytes) FILTER (WHERE u.deleted_at IS NULL), 0) AS bytes,
    count(*) FILTER (WHERE u.deleted_at IS NULL AND u.claimed_by_run_id IS NULL AND u.expires_at <= :now)
        AS expired,
    count(*) FILTER (WHERE u.claimed_by_run_id IS NOT NULL) AS claimed,
    count(*) FILTER (WHERE u.deleted_at IS NOT NULL) AS deleted
FROM (SELECT * FROM temp_uploads AS u WHERE u.tenant_id = :tenant LIMIT 100000) AS u
"""


def upload_stats(tx: Transaction, tenant: str) -> Document:
    """Numbers of the tenant's uploads {total, expired, claimed, deleted, bytes}, of at most 100,000 rows.

    `expired` counts those that are deleted next, `bytes` those that are not deleted.
    """
    row: Any = tx.execute(_STATS, {"tenant": tenant, "now": tx.now}).one()
    return UploadStats.of(row, bytes=int(row.bytes))
