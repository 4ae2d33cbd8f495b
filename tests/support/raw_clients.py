"""Clients that speak HTTP by hand, and slowly, over their own sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

# How long an answer may take on a busy machine.
ANSWER_DEADLINE_S = 60.0


def connect(url: str, *, receive_buffer: int | None = None) -> socket.socket:
    """A connection to the server at this URL."""
    parts = urlsplit(url)
    client = socket.socket()
    client.settimeout(ANSWER_DEADLINE_S)
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect((parts.hostname, parts.port))
    return client


@contextmanager
def crowd(
    url: str, size: int, sent: bytes, *, receive_buffer: int | None = None
) -> Iterator[list[socket.socket]]:
    """So many connections, on each of which this was sent; nobody reads from them."""
    with ExitStack() as stack:
        clients = []
        for _ in range(size):
            client = stack.enter_context(connect(url, receive_buffer=receive_buffer))
            client.sendall(sent)
            clients.append(client)
        yield clients


def exchange(url: str, *sent: bytes) -> bytes:
    """Everything that the server answers until it closes the connection."""
    with connect(url) as client:
        for part in sent:
            client.sendall(part)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    """Everything that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def status_of(answer: bytes) -> int:
    """The status of an answer; 0 for none."""
    return int(answer.split(b" ", 2)[1]) if answer else 0
