"""A server that takes requests and answers a byte at a time, without an end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# Between two bytes (s): far below every deadline of one reading.
EVERY_S = 0.02


@dataclass
class Dripping:
    """A server that drips.

    Args:
        url: where it listens.
        cut: how many of its connections were ended by the other side.
    """

    url: str
    taken: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    cut: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


@contextmanager
def dripping(first: bytes, then: bytes = b"x") -> Iterator[Dripping]:
    """Answer each connection with `first` at once, and with `then` again and again until it is cut."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        served = Dripping(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def drip(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(first)
                served.taken.release()
                while not is_over.wait(EVERY_S):
                    connection.sendall(then)
            served.cut.release()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield served
        finally:
            is_over.set()
            listening.shutdown(socket.SHUT_RDWR)
