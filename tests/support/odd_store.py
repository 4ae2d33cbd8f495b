"""A store that misbehaves: a real TCP server that hangs, drips, hangs up, or answers with a status."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from support.s3_server import a_backend

# Between two bytes (s): far below every deadline of one reading.
EVERY_S = 0.02
# The beginning of an answer whose body does not come.
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"


@dataclass
class OddStore:
    """What it does, which may be changed at any time, and what came.

    Args:
        way: `hang`, `drip` (the body), `drip-head`, `close`, or a status as text.
        connections: how many were taken.
        requests: the methods that arrived.
    """

    url: str
    way: str
    connections: int = 0
    requests: list[str] = field(default_factory=list)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def entry(self) -> dict[str, object]:
        """An entry of STORAGE_BACKENDS."""
        return a_backend(self.url)


@contextmanager
def odd_store(way: str) -> Iterator[OddStore]:
    """Run one until the block ends; then every connection is ended."""
    is_over = threading.Event()
    open_ones: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        store = OddStore(f"http://127.0.0.1:{listening.getsockname()[1]}", way)

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                while request := _request(connection):
                    store.requests.append(request.split(b" ", 1)[0].decode())
                    store.came.release()
                    if not _answer(connection, store.way, is_over):
                        return

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection = listening.accept()[0]
                    store.connections += 1
                    open_ones.append(connection)
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield store
        finally:
            is_over.set()
            listening.shutdown(socket.SHUT_RDWR)
            for each in open_ones:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _request(connection: socket.socket) -> bytes:
    """A request with its body; nothing when the other side has ended."""
    received = b""
    while b"\r\n\r\n" not in received:
        if not (piece := connection.recv(65_536)):
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    headers = {name: value.strip() for name, _, value in lines}
    if headers.get(b"expect"):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    left = int(headers.get(b"content-length", b"0")) - len(body)
    while left > 0 and (piece := connection.recv(65_536)):
        left -= len(piece)
    return head


def _answer(connection: socket.socket, way: str, is_over: threading.Event) -> bool:
    """Do what the store does; whether the connection goes on."""
    if way == "hang":
        is_over.wait()
        return False
    if way == "close":
        return False
    if way.startswith("drip"):
        connection.sendall(HEAD if way == "drip" else b"HTTP/1.1 200 O")
        while not is_over.wait(EVERY_S):
            connection.sendall(b"K")
        return False
    connection.sendall(f"HTTP/1.1 {way} Odd\r\nContent-Length: 0\r\n\r\n".encode())
    return True
