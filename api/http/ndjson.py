"""Answers with lines of JSON, part by part, and with a line that says where to go on after each of them.

Such an answer does not wait for its client. Its thread writes while the client takes what was written; when
the client falls behind, or the time is up, the answer ends early and says so, and the client asks again from
there. Only one that is whole, because nobody could go on with it, waits for a client that takes something.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson
from flask import Request, Response

from pipeweave.errors import PipeWeaveError, TooManyRequests
from pipeweave.orchestrator.export import ExportPart

NDJSON = "application/x-ndjson"
# Answers of this kind that a process writes at once, so that most of its threads stay free.
MOST_AT_ONCE = 2
# An answer ends when it took so long (s), or when its client has so much (bytes) not taken yet.
MOST_S = 20.0
MOST_UNTAKEN = 4_000_000
# Whole answers that a process writes at once, and how long one may take (s).
MOST_WHOLE_AT_ONCE = 1
MOST_WHOLE_S = 3_600.0
# zlib's wbits for a gzip header.
_GZIP = 31

_places = threading.BoundedSemaphore(MOST_AT_ONCE)
_places_of_whole = threading.BoundedSemaphore(MOST_WHOLE_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Lines:
    """An answer of many lines.

    Args:
        is_whole: it has all parts, or it has failed: no other answer goes on with it.
    """

    parts: Iterator[ExportPart]
    is_whole: bool = False


def streamed(request: Request, lines: Lines) -> Response:
    """The answer to a GET. What goes wrong before the first part is a problem document.

    Raises:
        TooManyRequests: enough such answers are being written.
        PipeWeaveError: from the first part.
    """
    places, most = (_places_of_whole, MOST_WHOLE_AT_ONCE) if lines.is_whole else (_places, MOST_AT_ONCE)
    if not places.acquire(blocking=False):
        raise TooManyRequests(
            f"this process is writing {most} {'export' if most == 1 else 'exports'} already",
            hint="ask again when one of them has ended",
        )
    writing = _Writing(request, lines, places)
    try:
        writing.begin()
    except BaseException:
        writing.close()
        raise
    response = Response(writing, content_type=NDJSON)
    response.headers["Vary"] = "Accept-Encoding"
    if writing.is_compressed:
        response.headers["Content-Encoding"] = "gzip"
    return response


def saved(request: Request, lines: Lines, filename: str) -> Response:
    """As `streamed`, as a file that a browser saves under this name."""
    response = streamed(request, lines)
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(filename, safe='')}"
    return response


class _Writing:
    """The pieces of an answer. It holds its place until its last piece, or until it is closed."""

    def __init__(self, request: Request, lines: Lines, places: threading.BoundedSemaphore) -> None:
        self._parts, self._is_whole, self._places = lines.parts, lines.is_whole, places
        self._socket: Any = request.environ.get("gunicorn.socket")
        self._until = time.monotonic() + (MOST_WHOLE_S if lines.is_whole else MOST_S)
        self._pieces: Iterator[bytes] = iter(())
        self._is_open = True
        self._rows = 0
        self._gzip = zlib.compressobj(wbits=_GZIP) if request.accept_encodings["gzip"] > 0 else None

    @property
    def is_compressed(self) -> bool:
        return self._gzip is not None

    def begin(self) -> None:
        """Make the first part."""
        self._pieces = self._written(next(self._parts))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            # Whole parts are read in a transaction, which ends here if the client left in the middle.
            for each in (self._pieces, self._parts):
                if isinstance(each, Generator):
                    each.close()
            self._places.release()

    def _written(self, part: ExportPart) -> Iterator[bytes]:
        while True:
            self._rows += part.rows
            is_over = part.is_last or self._must_end()
            end = self._trailer(part) if not is_over else self._trailer(part, isComplete=part.is_last)
            yield from self._piece(part.content + end, is_last=is_over)
            if is_over:
                return
            try:
                part = next(self._parts)
            except PipeWeaveError as error:
                # The status was sent long ago.
                failed = {"code": error.code, "detail": str(error.detail)}
                yield from self._piece(self._trailer(part, isComplete=False, error=failed), is_last=True)
                return

    def _must_end(self) -> bool:
        if self._is_whole and self._socket is not None:
            self._socket.wait_until_taken(MOST_UNTAKEN)
        untaken = getattr(self._socket, "left", 0)
        return untaken > MOST_UNTAKEN or time.monotonic() > self._until

    def _trailer(self, part: ExportPart, **more: Any) -> bytes:
        return orjson.dumps({"cursor": part.cursor, "rows": self._rows, **more}) + b"\n"

    def _piece(self, content: bytes, *, is_last: bool) -> Iterator[bytes]:
        if self._gzip is not None:
            content = self._gzip.compress(content)
            content += self._gzip.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)
        if content:
            yield content
