"""Receives a body that is stored as it is: an object of any type, which may be too large for memory."""

from __future__ import annotations

from typing import IO

from flask import Request

from pipeweave.api.http.body import content_of
from pipeweave.api.http.slow_bodies import allow_time
from pipeweave.errors import PayloadTooLarge


class RawBody:
    """The body of a request, piece by piece.

    Args:
        request: the request; its body has not been read.
    """

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def mime_type(self) -> str:
        """The media type that the client gives; empty without one."""
        return self._request.mimetype

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request, by names in lower case."""
        return {name.lower(): value for name, value in self._request.headers.items()}

    def content(self, limit: int) -> bytes:
        """The whole body, which is small.

        Args:
            limit: the largest size (bytes).

        Raises:
            PayloadTooLarge: it is larger (werkzeug's 413, translated in errors.py).
        """
        self._request.max_content_length = limit
        return content_of(self._request)

    def receive(self, limit: int) -> IO[bytes]:
        """The body, to be read once. It may take long: the caller bounds how many do it at a time.

        Args:
            limit: the largest size (bytes).

        Raises:
            PayloadTooLarge: it is larger.
        """
        request = self._request
        if request.content_length is not None and request.content_length > limit:
            size = request.content_length
            raise PayloadTooLarge(f"the body has {size:,} bytes; at most {limit:,} are possible")
        request.max_content_length = limit
        allow_time(request)
        return request.stream
