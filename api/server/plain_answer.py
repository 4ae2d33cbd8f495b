"""Writes the answer to a request with a plain head: its head and a short body leave in one send."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from gunicorn import SERVER
from gunicorn.util import http_date

from pipeweave.api.server.client_socket import ClientSocket

_FIELDS = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [ \t!-~\x80-\xff]*\r\n)*")
_STATUS = re.compile(r"[1-5][0-9]{2} [ \t!-~\x80-\xff]*")
_WITHOUT_BODY = ("204", "304")
# Each hop of a request says them for itself.
_HOPS = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "server",
        "date",
    )
)


class PlainAnswer:
    """The answer of an application, as gunicorn would write it.

    Args:
        sock: of the client.
        is_kept: whether the client may send a further request on this connection.

    Attributes:
        status, headers: as the application said them.
        is_begun: whether a part of the answer has left.
        is_kept: as above; what the application does not keep to ends the connection.
        sent: bytes of its body.
    """

    def __init__(self, sock: ClientSocket, *, is_kept: bool) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.is_begun = False
        self.is_kept = is_kept
        self.sent = 0
        self._sock = sock
        self._length: int | None = None
        self._has_body = self._is_chunked = False

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., None]:
        """Take the head of the answer: `start_response` of WSGI.

        Raises:
            AssertionError: the answer has a head already.
        """
        if exc_info and self.is_begun:
            raise exc_info[1].with_traceback(exc_info[2])
        if self.status and not exc_info:
            raise AssertionError("the answer has a head already")
        self.status, self.headers = status, headers
        self._has_body = status[:3] not in _WITHOUT_BODY
        lengths = [int(value) for name, value in headers if name.lower() == "content-length"]
        self._length = lengths[-1] if lengths and self._has_body else None
        self._is_chunked = self._has_body and self._length is None
        return self.write

    def write(self, part: bytes) -> None:
        """Send a part of the body; never more than the head says.

        Raises:
            ValueError: a status or a field of the head is none.
            OSError: the connection is broken, or the client takes nothing.
        """
        if not self._has_body:
            part = b""
        elif self._length is not None:
            part = part[: self._length - self.sent]
        if part:
            self.sent += len(part)
            self._send(b"%X\r\n%b\r\n" % (len(part), part) if self._is_chunked else part)

    def finish(self) -> None:
        """Send what is left of the answer. One that is shorter than its head says ends the connection."""
        if self._length is not None and self.sent < self._length:
            self.is_kept = False
        if self._is_chunked:
            self._send(b"0\r\n\r\n")
        elif not self.is_begun:
            self._send(b"")

    def _send(self, data: bytes) -> None:
        if self.is_begun:
            self._sock.sendall(data)
            return
        head = self._head()
        self.is_begun = True
        self._sock.send_now(head, data)

    def _head(self) -> bytes:
        listed = [(name, value.strip(" \t")) for name, value in self.headers if name.lower() not in _HOPS]
        if self.status[:3] == "204":
            listed = [each for each in listed if each[0].lower() != "content-length"]
        fields = "".join([f"{name}: {value}\r\n" for name, value in listed])
        if not _STATUS.fullmatch(self.status):
            raise ValueError(f"{self.status!r} is no status of an answer")
        # A value with a line break would be a field of its own.
        if not _FIELDS.fullmatch(fields) or fields.count("\n") != len(listed):
            raise ValueError(f"one of these fields of an answer is none: {[name for name, _ in listed]}")
        coding = "Transfer-Encoding: chunked\r\n" if self._is_chunked else ""
        connection = "keep-alive" if self.is_kept else "close"
        return (
            f"HTTP/1.1 {self.status}\r\nServer: {SERVER}\r\nDate: {_date()}\r\n"
            f"Connection: {connection}\r\n{coding}{fields}\r\n"
        ).encode("latin-1")


# Seconds for which answers say the same time.
_SAME_DATE_S = 0.5
_last_date = (0.0, "")


def _date() -> str:
    """The time as answers say it, written twice a second."""
    global _last_date
    now, known = time.monotonic(), _last_date
    if now >= known[0]:
        known = _last_date = (now + _SAME_DATE_S, http_date())
    return known[1]
