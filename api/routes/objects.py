"""Endpoints of signed URLs: HTTP workers without credentials read and write single objects here, where the
storage backend has no signed URLs of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeweave.api.contract.worker_reports import SignedObjectQuery, WrittenObject
from pipeweave.api.http import Call, Download, RawBody, Routes
from pipeweave.api.http.download import of_object
from pipeweave.errors import NotFound, ObjectTooLarge, PayloadTooLarge, Unauthenticated, Unavailable
from pipeweave.orchestrator.dispatch import object_urls, tokens
from pipeweave.orchestrator.objects import media_types
from pipeweave.size_limits import MAX_OUTPUT_BYTES
from pipeweave.storage import Storage
from pipeweave.storage.base import BINARY

routes = Routes("workers")

# Objects that a server process receives at a time: other requests are not to wait for slow senders.
AT_ONCE = 4
_places = threading.BoundedSemaphore(AT_ONCE)


@routes.add(
    "GET",
    object_urls.PATH,
    "Read an object by its signed URL",
    scopes=(),
    query=SignedObjectQuery,
    gives_file=True,
    errors=(Unauthenticated, NotFound, Unavailable),
)
def read_object(call: Call, query: SignedObjectQuery) -> Download:
    """The bytes of an object that a dispatch names. The URL is made by the orchestrator, and expires."""
    storage = _checked(call, "GET", query)
    stored_object = storage.stat(query.path)
    if stored_object is None:
        raise NotFound(f"there is no stored object {query.path[:200]!r}", path=query.path[:200])
    return of_object(storage, stored_object, media_types.media_type(query.path))


@routes.add(
    "PUT",
    object_urls.PATH,
    "Write an object by its signed URL",
    scopes=(),
    query=SignedObjectQuery,
    takes_bytes=True,
    answer=WrittenObject,
    errors=(Unauthenticated, Unavailable),
)
def write_object(call: Call, query: SignedObjectQuery, body: RawBody) -> dict[str, Any]:
    """Store the body as the object, complete or not at all. Writing it again replaces it."""
    storage = _checked(call, "PUT", query)
    media_type = body.mime_type or BINARY
    with _place():
        stream = body.receive(MAX_OUTPUT_BYTES)
        try:
            written = storage.put_stream(query.path, stream, limit=MAX_OUTPUT_BYTES, content_type=media_type)
        except ObjectTooLarge as error:
            raise PayloadTooLarge(error.detail) from None
    return {"path": query.path, "size": written.size, "sha256": written.sha256}


def _checked(call: Call, method: str, query: SignedObjectQuery) -> Storage:
    deployment = call.deployment
    now = deployment.database.now().timestamp()
    secret = tokens.secret_of(deployment.settings)
    object_urls.check(secret, method, query.backend, query.path, query.expires, query.signature, now)
    return deployment.values.backends.get(query.backend)


@contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(blocking=False):
        raise Unavailable("too many objects are being written; try again in a moment")
    try:
        yield
    finally:
        _places.release()
