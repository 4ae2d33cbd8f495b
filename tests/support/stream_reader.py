"""A client of the stream of changes, on a socket of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from support.raw_clients import connect


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One server-sent event."""

    name: str
    id: str | None
    data: Any


@dataclass
class StreamReader:
    """Reads the events of one connection."""

    client: socket.socket
    head: bytes = b""
    _buffer: bytes = field(default=b"", repr=False)

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    def next(self) -> StreamEvent | None:
        """The next event; None when the server closes the connection. Comments are left out."""
        while True:
            block = self.until(b"\n\n")
            if block is None:
                return None
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
            if b"data" in fields:
                return StreamEvent(
                    fields.get(b"event", b"message").decode(),
                    fields[b"id"].decode() if b"id" in fields else None,
                    orjson.loads(fields[b"data"]),
                )

    def types(self, count: int) -> list[str]:
        """The types of the next changes."""
        found = [self.next() for _ in range(count)]
        return [each.data["type"] for each in found if each is not None]

    def until(self, end: bytes) -> bytes | None:
        """What comes before this; None when the server closes the connection."""
        while end not in self._buffer:
            data = self.client.recv(65_536)
            if not data:
                return None
            self._buffer += data
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def exactly(self, count: int) -> bytes:
        """The next bytes."""
        while len(self._buffer) < count:
            data = self.client.recv(65_536)
            assert data, "the server closed the connection"
            self._buffer += data
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found


@contextmanager
def streaming(
    url: str, path: str, token: str, tenant: str, *headers: str, receive_buffer: int | None = None
) -> Iterator[StreamReader]:
    """A connection that asks for this stream; its head has come."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        f"X-Tenant: {tenant}",
        f"Authorization: Bearer {token}",
        *headers,
        "",
        "",
    ]
    with connect(url, receive_buffer=receive_buffer) as client:
        client.sendall("\r\n".join(lines).encode())
        reader = StreamReader(client)
        reader.head = reader.until(b"\r\n\r\n") or b""
        yield reader
