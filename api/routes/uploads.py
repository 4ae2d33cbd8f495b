"""Endpoints of temp uploads: store a file before the run that uses it; list, show and delete uploads."""

from __future__ import annotations

import logging
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.storage import DeletedUpload, UploadedAnswer
from pipeweave.api.http import Call, FormFile, PathId, ReceivedFile, Routes
from pipeweave.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    NotFound,
    ObjectTooLarge,
    PayloadTooLarge,
    PipeWeaveError,
    Unavailable,
    UploadDeleted,
)
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.uploads import Upload, UploadList, UploadStats
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.objects import file_names, paths, uploads
from pipeweave.orchestrator.security import WRITE
from pipeweave.size_limits import MAX_UPLOAD_BYTES
from pipeweave.storage import ObjectRef, Storage, WrittenContent

log = logging.getLogger(__name__)

routes = Routes("uploads")
UPLOAD = {"id": PathId(ids.UPLOAD, "The upload's id, `tmp_…`.")}

# Uploads that a server process receives at a time: the threads for other requests are not to wait for
# senders.
AT_ONCE = 4
MAX_FILENAME = 255
_places = threading.BoundedSemaphore(AT_ONCE)


@routes.add(
    "POST",
    "/api/upload/temp",
    "Upload a file",
    scopes=(WRITE,),
    takes_file=True,
    answer=UploadedAnswer,
    errors=(Unavailable,),
)
def upload(call: Call, form: FormFile) -> dict[str, Any]:
    """Store the file of a form, field `file`, of up to 100 MiB. Name `uploadId` in the input of a run within
    24
    hours: the run claims it, and it is kept as long as the run. Otherwise it is deleted.
    """
    with receiving():
        received = form.receive()
        name = _checked_name(received.name)
        backends = call.deployment.values.backends
        with call.reading() as tx:
            upload_id = tx.new_id()
        place = ObjectRef(
            backends.choose(call.tenant, None), paths.upload_path(upload_id, file_names.safe_name(name))
        )
        # The object first: an object without a row is found by the sweep, a row without one by nobody.
        written = _store(backends.get(place.backend), place.path, received)
    new = uploads.NewUpload(
        upload_id,
        call.tenant,
        str(place),
        name,
        received.mime_type[:MAX_FILENAME],
        written.size,
        written.sha256,
        uploaded_by=call.token_name or form.sender,
    )
    expires_at = call.change(lambda tx: uploads.add(tx, new))
    return {
        "uploadId": ids.show(ids.UPLOAD, upload_id),
        "storagePath": place.path,
        "filename": name,
        "size": written.size,
        "mimeType": new.mime_type,
        "sha256": written.sha256,
        "expiresAt": iso(expires_at),
    }


@routes.add("GET", "/api/upload/temp", "List the uploads", query=PageQuery, answer=UploadList)
def list_uploads(call: Call, query: PageQuery) -> dict[str, Any]:
    """The uploads of the tenant, newest first; deleted ones for 30 days."""
    default = call.deployment.values.backends.default_id
    with call.reading() as tx:
        return query.named("uploads", reading.uploads(tx, call.tenant, query.page(), default))


@routes.add("GET", "/api/upload/stats", "Show the numbers of uploads", answer=UploadStats)
def upload_stats(call: Call) -> dict[str, Any]:
    """How many uploads the tenant has, of at most 100,000."""
    with call.reading() as tx:
        return reading.upload_stats(tx, call.tenant)


@routes.add("GET", "/api/upload/temp/{id}", "Show an upload", ids=UPLOAD, answer=Upload, errors=(NotFound,))
def get_upload(call: Call, id: str) -> dict[str, Any]:
    """One upload. `GET /api/storage/{path}` with its `storagePath` answers its content."""
    upload_id = ids.read(ids.UPLOAD, id)
    with call.reading() as tx:
        return reading.upload(tx, call.tenant, upload_id, call.deployment.values.backends.default_id)


@routes.add(
    "DELETE",
    "/api/upload/temp/{id}",
    "Delete an upload",
    scopes=(WRITE,),
    ids=UPLOAD,
    answer=DeletedUpload,
    errors=(NotFound, Conflict, UploadDeleted),
)
def delete_upload(call: Call, id: str) -> dict[str, Any]:
    """Delete an upload that no run has claimed. Answers 409 for a claimed one, and 410 for a deleted one."""
    upload_id = ids.read(ids.UPLOAD, id)
    reference = call.change(lambda tx: uploads.delete(tx, call.tenant, upload_id))
    storage, path = call.deployment.values.backends.locate(reference)
    try:
        storage.delete(path)
    except PipeWeaveError as error:
        # Its row says that it is deleted: the sweep deletes the object.
        log.warning("upload.left_to_the_sweep", extra={"path": path, "reason": error.detail})
    return {"success": True, "uploadId": id}


def _store(storage: Storage, path: str, received: ReceivedFile) -> WrittenContent:
    try:
        return storage.put_stream(
            path, received.content, limit=MAX_UPLOAD_BYTES, content_type=received.mime_type
        )
    except ObjectTooLarge as error:
        raise PayloadTooLarge(
            f"a file may have at most {MAX_UPLOAD_BYTES} bytes", limit=MAX_UPLOAD_BYTES
        ) from error


@contextmanager
def receiving() -> Iterator[None]:
    """One of the places of those that send a file.

    Raises:
        Unavailable: all are taken.
    """
    if not _places.acquire(blocking=False):
        raise Unavailable(
            f"this server process receives {AT_ONCE} uploads already", hint="try again in a few seconds"
        )
    try:
        yield
    finally:
        _places.release()


def _checked_name(name: str) -> str:
    problem = None
    if len(name) > MAX_FILENAME:
        problem = f"has a file name of more than {MAX_FILENAME} characters"
    elif any(unicodedata.category(each) in ("Cc", "Cs") for each in name):
        problem = "has a file name with control characters"
    if problem is not None:
        raise InvalidInput(f"file {problem}", errors=[FieldError("file", problem, "invalid")])
    return name
