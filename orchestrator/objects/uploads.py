"""Adds, claims and deletes temp uploads: files that are stored before the run that uses them.

An upload expires a day after it came, unless a run has claimed it; then it lives as long as one of the runs
that claimed it. Its row says that it is deleted before its object is: a crash between the two leaves an
object that the sweep finds, and never a row without an object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, LimitExceeded, NotFound, UploadDeleted, UploadNotUsable
from pipeweave.orchestrator.domain.json_shapes import run_id
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.size_limits import MAX_UPLOADS_OF_RUN

# How long an upload waits for a run that claims it.
KEPT = timedelta(hours=24)
# SQL: whether a run that claimed the upload `u` is there, or a dead letter of it, which can be retried.
IS_IN_USE = """EXISTS (SELECT 1 FROM upload_claims AS c WHERE c.upload_id = u.id AND (
    (SELECT true FROM runs AS r WHERE r.id = c.run_id LIMIT 1)
    OR (SELECT true FROM dead_letters AS d WHERE d.run_id = c.run_id LIMIT 1)))"""
# Rows that one call marks as deleted.
BATCH = 100
# How many ids an error names.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NewUpload:
    """An upload whose object is in storage.

    Args:
        path: the reference of its object.
        filename: as the caller gave it.
        size: bytes.
        sha256: lower-case hex.
        uploaded_by: the name of the caller's token.
    """

    id: UUID
    tenant: str
    path: str
    filename: str
    mime_type: str
    size: int
    sha256: str
    uploaded_by: str


_ADD = """
INSERT INTO temp_uploads (id, tenant_id, storage_path, filename, mime_type, size_bytes, sha256, uploaded_by,
    uploaded_at, expires_at)
VALUES (:id, :tenant, :path, :filename, :mime_type, :size, :sha, :by, :now, :expires_at)
"""


def add(tx: Transaction, new: NewUpload) -> datetime:
    """Write the row of an upload whose object is in storage already; when it expires."""
    expires_at = tx.now + KEPT
    parameters = {
        "id": new.id,
        "tenant": new.tenant,
        "path": new.path,
        "filename": new.filename,
        "mime_type": new.mime_type,
        "size": new.size,
        "sha": new.sha256,
        "by": new.uploaded_by,
        "now": tx.now,
        "expires_at": expires_at,
    }
    tx.execute(_ADD, parameters)
    return expires_at


# --- claiming ---------------------------------------------------------------------------------------------

# Locked, so that none of them is deleted before the runs are written. In the order of the ids: two triggers
# with the same uploads cannot deadlock.
_LOCK = """
SELECT u.id, u.deleted_at IS NOT NULL AS is_deleted,
    u.claimed_by_run_id IS NULL AND u.expires_at <= :now AS is_expired
FROM temp_uploads AS u WHERE u.id = ANY(CAST(:ids AS uuid[])) AND u.tenant_id = :tenant
ORDER BY u.id FOR NO KEY UPDATE
"""

_CLAIM = """
WITH claimed AS (
    INSERT INTO upload_claims (run_id, upload_id)
    SELECT c.run_id, c.upload_id
    FROM unnest(CAST(:runs AS uuid[]), CAST(:uploads AS uuid[])) AS c(run_id, upload_id)
    ON CONFLICT DO NOTHING
)
UPDATE temp_uploads AS u SET claimed_by_run_id = f.run_id
FROM unnest(CAST(:first_runs AS uuid[]), CAST(:of_uploads AS uuid[])) AS f(run_id, upload_id)
WHERE u.id = f.upload_id AND u.claimed_by_run_id IS NULL
"""


def claim(tx: Transaction, tenant: str, wanted: Mapping[UUID, Collection[UUID]]) -> None:
    """Let new runs claim the uploads that their inputs name. Call it in the transaction that writes the runs.

    An id that no upload of the tenant has is a text like any other.

    Args:
        wanted: run id -> ids of uploads.

    Raises:
        UploadNotUsable: an upload was deleted, or expired before a run claimed it.
        LimitExceeded: a run's input names too many uploads.
    """
    for named in wanted.values():
        _check_number(len(named))
    mentioned = sorted({each for named in wanted.values() for each in named})
    rows = tx.execute(_LOCK, {"ids": mentioned, "tenant": tenant, "now": tx.now}).all()
    if gone := [row for row in rows if row.is_deleted or row.is_expired]:
        raise _not_usable(gone)
    known = {row.id for row in rows}
    pairs = [(run, each) for run, named in sorted(wanted.items()) for each in sorted(named) if each in known]
    if pairs:
        first = {upload: run for run, upload in reversed(pairs)}
        parameters = {
            "runs": [run for run, _ in pairs],
            "uploads": [upload for _, upload in pairs],
            "first_runs": list(first.values()),
            "of_uploads": list(first),
        }
        tx.execute(_CLAIM, parameters)


def _check_number(count: int) -> None:
    if count > MAX_UPLOADS_OF_RUN:
        raise LimitExceeded(
            f"the input names {count:,} uploads; a run may use at most {MAX_UPLOADS_OF_RUN:,}",
            errors=[
                FieldError("input", "names too many uploads", "too_big", f"at most {MAX_UPLOADS_OF_RUN}")
            ],
        )


def _not_usable(gone: list[Any]) -> UploadNotUsable:
    shown = [
        (ids.show(ids.UPLOAD, row.id), "was deleted" if row.is_deleted else "has expired") for row in gone
    ]
    more = f" (and {len(gone) - 1} more)" if gone[1:] else ""
    return UploadNotUsable(
        f"upload {shown[0][0]} {shown[0][1]}{more}",
        errors=[
            FieldError("input", f"names upload {name}, which {why}", "gone") for name, why in shown[:_SHOWN]
        ],
        hint="upload the file again, and name its new id in the input",
    )


# --- deleting ---------------------------------------------------------------------------------------------

_DELETE = """
UPDATE temp_uploads SET deleted_at = :now
WHERE id = :id AND tenant_id = :tenant AND deleted_at IS NULL AND claimed_by_run_id IS NULL
RETURNING storage_path
"""
_STATE = "SELECT claimed_by_run_id, deleted_at FROM temp_uploads WHERE id = :id AND tenant_id = :tenant"


def delete(tx: Transaction, tenant: str, upload_id: UUID) -> str:
    """Mark an upload as deleted that no run has claimed.

    Returns:
        The reference of its object, which can be deleted after the commit.

    Raises:
        NotFound: the tenant has no such upload.
        UploadDeleted: it was deleted before.
        Conflict: a run has claimed it.
    """
    parameters = {"id": upload_id, "tenant": tenant}
    path = tx.execute(_DELETE, parameters | {"now": tx.now}).scalar_one_or_none()
    if path is not None:
        return str(path)
    row = tx.execute(_STATE, parameters).one_or_none()
    shown = ids.show(ids.UPLOAD, upload_id)
    if row is None:
        raise NotFound(f"upload {shown} not found", uploadId=shown)
    if row.deleted_at is not None:
        raise UploadDeleted(f"upload {shown} was deleted", uploadId=shown)
    raise Conflict(
        f"upload {shown} belongs to run {run_id(row.claimed_by_run_id)}",
        hint="it is deleted when the runs that use it are purged",
        uploadId=shown,
        claimedByRunId=run_id(row.claimed_by_run_id),
    )


_LOCK_ONE = "SELECT 1 FROM temp_uploads WHERE id = :id FOR NO KEY UPDATE"

# After the lock, so that it sees the claims of a run that was written meanwhile.
_GIVE_UP = f"""
UPDATE temp_uploads AS u SET deleted_at = :now
WHERE u.id = :id AND u.deleted_at IS NULL
    AND CASE WHEN u.claimed_by_run_id IS NULL THEN u.expires_at <= :now ELSE NOT {IS_IN_USE} END
"""


def give_up(tx: Transaction, upload_id: UUID) -> None:
    """Mark an upload as deleted that nobody can use any more: it expired unclaimed, or its runs are gone."""
    tx.execute(_GIVE_UP, {"id": upload_id, "now": tx.now}, lock=_LOCK_ONE)


# SQL: whether an upload has expired that no run claimed.
HAS_EXPIRED = """EXISTS (SELECT 1 FROM temp_uploads
    WHERE deleted_at IS NULL AND claimed_by_run_id IS NULL AND expires_at <= now())"""

# A locked row is being claimed: SKIP LOCKED leaves it to the next call.
_EXPIRE = """
UPDATE temp_uploads AS u SET deleted_at = :now FROM (
    SELECT id FROM temp_uploads
    WHERE deleted_at IS NULL AND claimed_by_run_id IS NULL AND expires_at <= :now
    ORDER BY expires_at LIMIT :batch FOR UPDATE SKIP LOCKED) AS expired
WHERE u.id = expired.id RETURNING u.storage_path
"""


def expire(tx: Transaction, batch: int = BATCH) -> list[str]:
    """Mark uploads as deleted that expired before a run claimed them, at most `batch`.

    Returns:
        The references of their objects, which can be deleted after the commit.
    """
    return [str(each) for each in tx.execute(_EXPIRE, {"now": tx.now, "batch": batch}).scalars()]


_OF_RUN = """
SELECT u.id, u.storage_path, u.filename, u.mime_type, u.size_bytes
FROM upload_claims AS c JOIN temp_uploads AS u ON u.id = c.upload_id
WHERE c.run_id = :run_id AND u.deleted_at IS NULL ORDER BY u.id
"""


def of_run(tx: Transaction, run: UUID) -> dict[str, dict[str, Any]]:
    """The uploads that a run's input names: upload id -> {path, filename, mimeType, size}.

    `path` is the reference of the object: `<backend>//<path>`.
    """
    return {
        ids.show(ids.UPLOAD, row.id): {
            "path": row.storage_path,
            "filename": row.filename,
            "mimeType": row.mime_type,
            "size": row.size_bytes,
        }
        for row in tx.execute(_OF_RUN, {"run_id": run})
    }
