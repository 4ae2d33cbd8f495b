"""An HTTP proxy that meddles: it lets requests fail, doubles them, delays them or garbles their answers.

One stands before each HTTP service, for the dispatches, and one before the API for each, for its reports.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_LOOPBACK = "127.0.0.1"
# Longer than anybody waits for an answer here (s).
_PASS_S = 30.0
_NONSENSE = b"\x00\xffI am a teapot, and this is no HTTP\r\n\r\n"
# Headers that belong to one connection.
_OF_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


@dataclass(frozen=True, slots=True)
class Meddling:
    """What happens to requests.

    Args:
        answer: `real`, `error` (500 instead of the real one) or `nonsense` (bytes that are no HTTP).
        times: how often a request is passed on; the last answer counts.
        delay_s: the pause before it is passed on.
    """

    answer: str = "real"
    times: int = 1
    delay_s: float = 0.0


PLAIN = Meddling()


class Meddler:
    """Passes requests on to a port of this machine, until `close`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.requests = 0
        self._way = PLAIN
        self._server = _Server((_LOOPBACK, 0), _conversation(self))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @contextmanager
    def meddling(self, way: Meddling) -> Iterator[None]:
        """Meddle with every request of the block."""
        self._way, self.requests = way, 0
        try:
            yield
        finally:
            self._way = PLAIN

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer | None:
        """Pass a request on, as it is told; None for nonsense."""
        way = self._way
        if way is not PLAIN and method != "GET":
            self.requests += 1
            time.sleep(way.delay_s)
        answer = Answer(500, {}, b'{"error": "meddled with"}')
        for _ in range(way.times if method != "GET" else 1):
            answer = self._ask(method, path, headers, body)
        if way.answer == "nonsense":
            return None
        return (
            answer
            if way.answer == "real" or method == "GET"
            else Answer(500, {}, b'{"error": "meddled with"}')
        )

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        try:
            with closing(http.client.HTTPConnection(_LOOPBACK, self.target, timeout=_PASS_S)) as connection:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                kept = {n: v for n, v in answer.getheaders() if n.lower() not in _OF_CONNECTION}
                return Answer(answer.status, kept, answer.read())
        except (OSError, http.client.HTTPException):
            raise Away from None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Away(Exception):
    """The other side does not listen, or hung up."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Processes are killed in the middle of requests."""


def _conversation(meddler: Meddler) -> type[BaseHTTPRequestHandler]:
    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _PASS_S
        disable_nagle_algorithm = True

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {n: v for n, v in self.headers.items() if n.lower() not in _OF_CONNECTION}
            try:
                answer = meddler.pass_on(self.command, self.path, headers, body)
            except Away:
                self._hang_up()
                return
            if answer is None:
                self.wfile.write(_NONSENSE)
                self._hang_up()
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def _hang_up(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = do_DELETE = respond

        def log_message(self, *_: object) -> None:
            pass

    return Conversation
