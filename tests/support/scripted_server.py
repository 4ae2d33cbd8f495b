"""An HTTP server that answers in pieces that a test chooses, over plain TCP or TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

BODY = b'{"a": 1}'


@dataclass
class Scripted:
    """A server that answers the requests of each connection with the same pieces, and ends it after some.

    Args:
        requests: what came, by connection.
    """

    url: str
    requests: list[list[bytes]] = field(default_factory=list)


@contextmanager
def answering(
    *pieces: bytes, of_a_connection: int = 1, tls: ssl.SSLContext | None = None
) -> Iterator[Scripted]:
    """Serve until the block ends.

    Args:
        of_a_connection: so many requests are answered before a connection is closed.
        tls: the server's side of TLS; None for plain TCP.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        scheme = "http" if tls is None else "https"
        served = Scripted(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}")

        def serve(plain: socket.socket, requests: list[bytes]) -> None:
            with plain, suppress(OSError), opened(plain, tls) as connection:
                while len(requests) < of_a_connection and (request := a_request(connection)):
                    requests.append(request)
                    for each in pieces:
                        connection.sendall(each)
                if tls is not None:
                    # It says that it ends, as TLS has it: what was cut off would be no end.
                    connection.unwrap()  # type: ignore[attr-defined]

        def accept() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                served.requests.append([])
                threading.Thread(target=serve, args=(connection, served.requests[-1]), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def opened(connection: socket.socket, tls: ssl.SSLContext | None) -> socket.socket:
    return connection if tls is None else tls.wrap_socket(connection, server_side=True)


def a_request(connection: socket.socket) -> bytes:
    """A request that ends with BODY."""
    request = b""
    while not request.endswith(BODY):
        if not (piece := connection.recv(65_536)):
            return b""
        request += piece
    return request
