"""Endpoints of stored objects: the backends, the objects of the tenant, the sweep of what nobody needs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import orjson

from pipeweave.api.contract.storage import (
    ObjectPreview,
    ObjectQuery,
    PreviewQuery,
    StorageBackends,
    StorageUsage,
    StoredObject,
    SweepReport,
    SweepRequest,
    UsageQuery,
)
from pipeweave.api.http import Answer, Call, Download, PathId, Routes
from pipeweave.api.http.download import of_object
from pipeweave.errors import (
    Conflict,
    LimitExceeded,
    NotFound,
    NotJson,
    ObjectTooLarge,
    RangeNotSatisfiable,
    Unavailable,
)
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.objects import media_types, owners, previews, requested_sweep, usage
from pipeweave.orchestrator.security import ADMIN
from pipeweave.size_limits import MAX_LOADED_BYTES
from pipeweave.storage import Backends, ObjectInfo, ObjectRef, Storage

routes = Routes("storage")
OBJECT = {"path": PathId(None, "The path of the object; it may have slashes.", is_path=True)}


@routes.add("GET", "/api/storage/backends", "List the storage backends", answer=StorageBackends)
def list_backends(call: Call) -> dict[str, Any]:
    """Where values, files and logs are stored. Credentials are never shown."""
    backends = call.deployment.values.backends
    named = ("id", "provider", "endpoint", "bucket", "region", "isDefault")
    shown = [{name: each.get(name) for name in named} for each in backends.describe(call.tenant)]
    return {"backends": shown, "default": backends.default_id}


@routes.add(
    "GET",
    "/api/storage/{path}",
    "Read a stored object",
    ids=OBJECT,
    query=ObjectQuery,
    answer=StoredObject,
    gives_file=True,
    errors=(NotFound, NotJson, LimitExceeded, RangeNotSatisfiable, Unavailable),
)
def get_object(call: Call, path: str, query: ObjectQuery) -> Answer | Download:
    """An object that belongs to the tenant: the input of a run, an output, a file or a log of a task run, or
    an upload. Any other path answers 404.

    An object that is JSON answers {path, backend, content}. With `raw=true` it answers its bytes, as other
    objects do, with a media type, an ETag, and the range that the header Range names.
    """
    backends = call.deployment.values.backends
    where = ObjectRef(query.backend or backends.default_id, path)
    storage, stored_object = _object(call, backends, where)
    if media_types.is_json(path, query.name) and not query.raw:
        return Answer(_document(where, _content(storage, path)))
    return of_object(storage, stored_object, media_types.media_type(path, query.name), query.name)


@routes.add(
    "GET",
    "/api/storage/preview/{path}",
    "Show what a stored object holds",
    ids=OBJECT,
    query=PreviewQuery,
    answer=ObjectPreview,
    errors=(NotFound, Unavailable),
)
def preview_object(call: Call, path: str, query: PreviewQuery) -> dict[str, Any]:
    """The beginning of an object that belongs to the tenant, as data: JSON, text, or the rows of a table.
    HTML and SVG are text. Any other path answers 404.
    """
    backends = call.deployment.values.backends
    where = ObjectRef(query.backend or backends.default_id, path)
    storage, stored_object = _object(call, backends, where)
    return {
        "path": path,
        "backend": where.backend,
        "size": stored_object.size,
        "modifiedAt": iso(stored_object.modified_at),
        **_shown(previews.preview(storage, stored_object, query.name)),
    }


@routes.add(
    "GET",
    "/api/storage/usage",
    "Measure what lies in a backend",
    scopes=(ADMIN,),
    is_for_all=True,
    query=UsageQuery,
    answer=StorageUsage,
    errors=(NotFound, Unavailable),
)
def storage_usage(call: Call, query: UsageQuery) -> dict[str, Any]:
    """How many objects of each kind there are and how large they are together, of all tenants, from a sample
    of at most 5,000 of each kind within about 3 seconds. The answer says how exact each number is.
    """
    backends = call.deployment.values.backends
    backend = query.backend or backends.default_id
    if backend not in backends.ids:
        raise _no_backend(backend)
    sample = usage.measure(backends.get(backend), query.prefix or "")
    return {
        "backend": backend,
        "prefixes": [_use(each) for each in sample.parts],
        "seen": sample.seen,
        "largest": [
            {"path": each.path, "size": each.size, "modifiedAt": iso(each.modified_at)}
            for each in sample.largest
        ],
    }


@routes.add(
    "POST",
    "/api/storage/sweep",
    "Delete what nothing refers to",
    scopes=(ADMIN,),
    is_for_all=True,
    body=SweepRequest,
    is_body_optional=True,
    answer=SweepReport,
    errors=(NotFound, Conflict, Unavailable),
    example={"dryRun": True},
)
def sweep(call: Call, body: SweepRequest) -> dict[str, Any]:
    """Look for objects that are older than STORAGE_GRACE_HOURS and that no row refers to, and delete them, as
    the tick does once an hour.

    A request works for about 15 seconds; send it again with `after` set to its `next`, until that is null.
    Answers 409 while another process sweeps, and for a backend that may belong to another deployment.
    """
    settings = call.deployment.settings
    done = requested_sweep.run(
        call.deployment.database,
        call.deployment.values.backends,
        requested_sweep.SweepOrder(body.backend, body.after, body.dry_run, body.adopt),
        grace=timedelta(hours=settings.storage_grace_hours),
        is_own_folder=not settings.storage_backends,
    )
    return {"dryRun": body.dry_run, **asdict(done.swept), "next": done.next}


def _object(call: Call, backends: Backends, where: ObjectRef) -> tuple[Storage, ObjectInfo]:
    if where.backend in backends.ids:
        with call.reading() as tx:
            is_own = owners.may_read(tx, call.tenant, where, backends.default_id)
        # Storage may be slow: the database connection was given back.
        storage = backends.get(where.backend)
        stored_object = storage.stat(where.path) if is_own else None
        if stored_object is not None:
            return storage, stored_object
    raise NotFound(
        f"there is no stored object {where.path[:200]!r} in backend {where.backend[:200]!r}",
        hint="GET /api/storage/backends lists the backends",
        path=where.path[:200],
    )


def _no_backend(backend: str) -> NotFound:
    return NotFound(
        f"there is no backend {backend[:200]!r}",
        hint="GET /api/storage/backends lists the backends",
        backend=backend[:200],
    )


def _shown(preview: previews.Preview) -> dict[str, Any]:
    return {
        "kind": preview.kind,
        "mediaType": preview.media_type,
        "content": preview.content,
        "text": preview.text,
        "rows": preview.rows,
        "isCut": preview.is_cut,
    }


def _use(use: usage.Use) -> dict[str, Any]:
    return {
        "prefix": use.prefix,
        "objects": use.objects,
        "bytes": use.bytes,
        "newest": iso(use.newest),
        "isEstimate": use.is_estimate,
        "isCapped": use.is_capped,
    }


def _content(storage: Storage, path: str) -> bytes:
    try:
        content = storage.get(path, limit=MAX_LOADED_BYTES)
    except ObjectTooLarge as error:
        raise LimitExceeded(
            error.detail, hint="raw=true answers its bytes", limit=MAX_LOADED_BYTES
        ) from error
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise NotJson(f"the object {path[:200]!r} is not JSON", hint="raw=true answers its bytes") from error
    return content


def _document(where: ObjectRef, content: bytes) -> bytes:
    """The answer as JSON. The content is JSON text already: it is not written again."""
    head = orjson.dumps({"path": where.path, "backend": where.backend})
    return head[:-1] + b',"content":' + content + b"}"
