"""Send JSON over HTTP with little work in the client, because client and server share two cores."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from benchmarks.systems import DEADLINE_S, BenchmarkFailed
from pipeweave.up.ports import LOOPBACK


class HttpSender:
    """Sends requests to an HTTP server on this machine.

    Args:
        port: the server's port on the loopback address.
        headers: sent with every request.
    """

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self._port = port
        self.headers = {"Content-Type": "application/json", **(headers or {})}

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://{LOOPBACK}:{self._port}"

    def connect(self) -> closing[http.client.HTTPConnection]:
        """Open a connection for several requests."""
        return closing(http.client.HTTPConnection(LOOPBACK, self._port, timeout=DEADLINE_S))

    def send(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> Any:
        """Send one request and return its JSON."""
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, self.headers)
        answer = connection.getresponse()
        content = answer.read()
        if not 200 <= answer.status < 300:
            raise BenchmarkFailed(f"{method} {path} answered {answer.status}: {content[:500].decode()}")
        return json.loads(content)

    def fetch(self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> int:
        """GET a path, read the answer and return its status."""
        connection.request("GET", path, headers={**self.headers, **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def send_all(self, path: str, bodies: Sequence[Any], clients: int) -> list[Any]:
        """POST every body, from this many threads with one connection each, and return the answers."""

        def work(mine: Sequence[Any]) -> list[Any]:
            with self.connect() as connection:
                return [self.send(connection, "POST", path, body) for body in mine]

        with ThreadPoolExecutor(clients) as pool:
            parts = pool.map(work, [bodies[n::clients] for n in range(clients)])
            return [answer for part in parts for answer in part]

    def stream(self, path: str) -> socket.socket:
        """GET a path whose answer does not end; its beginning has come.

        The server may not have seen yet that earlier streams were closed: then it is asked again.
        """
        until = time.monotonic() + DEADLINE_S
        while (client := self._begun(path)) is None:
            if time.monotonic() > until:
                raise BenchmarkFailed(f"GET {path}: the server has no room for another stream")
            time.sleep(0.1)
        return client

    def _begun(self, path: str) -> socket.socket | None:
        """A stream whose beginning has come; None while the server has no room for it."""
        client = socket.create_connection((LOOPBACK, self._port), DEADLINE_S)
        headers = [f"{name}: {value}" for name, value in self.headers.items()]
        lines = [f"GET {path} HTTP/1.1", f"Host: {LOOPBACK}", *headers]
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        begun = b""
        while b"event: ready" not in begun:
            piece = client.recv(65_536)
            begun += piece
            if begun.startswith(b"HTTP/1.1 503"):
                client.close()
                return None
            if not piece or not begun.startswith(b"HTTP/1.1 200"):
                raise BenchmarkFailed(f"GET {path} answered {begun[:500].decode()}")
        return client

    def answers(self, path: str) -> bool:
        """True if a GET of this path succeeds now."""
        try:
            with self.connect() as connection:
                connection.request("GET", path)
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
