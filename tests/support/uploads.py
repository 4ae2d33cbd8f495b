"""Temp uploads as rows, for tests."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from pipeweave.orchestrator.objects import paths, uploads
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage import ObjectRef


def an_upload(
    database: Database,
    tenant: str,
    *,
    backend: str = "local",
    age: timedelta = timedelta(),
    name: str = "a.csv",
) -> UUID:
    """The row of an upload that came this long ago; its object is not stored."""
    with database.transaction() as tx:
        upload_id = tx.new_id()
        tx.now -= age
        path = str(ObjectRef(backend, paths.upload_path(upload_id, name)))
        uploads.add(
            tx, uploads.NewUpload(upload_id, tenant, path, name, "text/csv", 3, "0" * 64, uploaded_by="test")
        )
    return upload_id
