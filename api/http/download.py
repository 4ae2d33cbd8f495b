"""Answers with a stored object piece by piece: the whole of it, or the one range that the request names (RFC
9110).

Objects are what users and their tasks stored, so a browser must never run one as a page of this origin: it
is told to save it, and not to guess its type.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from urllib.parse import quote

from flask import Request, Response

from pipeweave.errors import RangeNotSatisfiable
from pipeweave.storage import ObjectInfo, Storage
from pipeweave.storage.base import BINARY

# One range of bytes. Several in one request are answered with the whole object, which is allowed.
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,100}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\Z")
# A browser puts the headers of a 304 in the place of those it kept: the sandbox must stay.
_UNCHANGED = ("ETag", "Cache-Control", "Content-Security-Policy")

# Opens the object from a byte on, for so many bytes.
Opener = Callable[[int, int], AbstractContextManager[Iterator[bytes]]]


@dataclass(frozen=True, slots=True)
class Download:
    """A stored object as the answer to a request.

    Args:
        open: opens a part of it.
        size: bytes of the whole object.
        etag: changes whenever the content does; letters, digits and `-`.
        content_type: sent if it is a media type, else as any bytes.
        filename: under which a browser saves it.
    """

    open: Opener
    size: int
    etag: str
    content_type: str
    filename: str


def of_object(
    storage: Storage, stored_object: ObjectInfo, content_type: str, name: str | None = None
) -> Download:
    """A stored object as a download, under a name; by default the last part of its path."""
    seen = f"{stored_object.path}\0{stored_object.size}\0{stored_object.modified_at.isoformat()}"

    def opened(start: int, length: int) -> AbstractContextManager[Iterator[bytes]]:
        return storage.open(stored_object.path, start=start, length=length)

    etag = hashlib.sha256(seen.encode()).hexdigest()[:32]
    filename = name or stored_object.path.rpartition("/")[2]
    return Download(opened, stored_object.size, etag, content_type, filename)


def answered(request: Request, file: Download) -> Response:
    """The answer to a GET or HEAD of the object.

    Raises:
        RangeNotSatisfiable: the object ends before the requested range begins.
        NotFound, Unavailable: the object is gone, or storage is away; nothing was sent yet.
    """
    headers = _headers(file)
    if request.if_none_match.contains(file.etag):
        return Response(status=304, headers={name: headers[name] for name in _UNCHANGED})
    wanted = _range(request, file)
    start, length = wanted or (0, file.size)
    headers["Content-Length"] = str(length)
    if wanted is not None:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{file.size}"
    response = Response(status=200 if wanted is None else 206, headers=headers, content_type=_type(file))
    if request.method != "HEAD" and length:
        opened = file.open(start, length)
        response.response = opened.__enter__()
        response.call_on_close(lambda: opened.__exit__(None, None, None))
    return response


def _headers(file: Download) -> dict[str, str]:
    return {
        "ETag": f'"{file.etag}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.filename, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }


def _type(file: Download) -> str:
    media_type = file.content_type.lower()
    return media_type if _MEDIA_TYPE.match(media_type) else BINARY


def _range(request: Request, file: Download) -> tuple[int, int] | None:
    """The first byte and the number of bytes of the requested range; None: the whole object is wanted."""
    match = _RANGE.match(request.headers.get("Range", ""))
    if match is None or match[0] == "bytes=-":
        return None
    since = request.headers.get("If-Range")
    if since is not None and since != f'"{file.etag}"':
        return None
    first, last = match[1], match[2]
    if first and last and int(last) < int(first):
        return None
    start = int(first) if first else max(0, file.size - int(last))
    end = min(int(last) + 1, file.size) if first and last else file.size
    if start >= end:
        raise RangeNotSatisfiable(
            f"the object has {file.size:,} bytes, and none in the range {match[0][:60]}", size=file.size
        )
    return start, end - start
