"""Answers `GET /health` of one worker, dispatcher or beat process on a port of its own, for probes.

A few threads of the parent answer it. Its children, which are forked, close the socket at once: a port is
free as soon as the parent has ended.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from pipeweave.errors import PortInUse

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
# Seconds for a request and its answer, and how many are answered at a time; a further one is closed.
REQUEST_S = 5.0
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """What a process answers.

    Args:
        is_healthy: the answer is 200, else 503.
        document: its body.
    """

    is_healthy: bool
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class HealthAddress:
    """Where a process answers; port 0 is a free one."""

    port: int
    host: str = LOOPBACK


class HealthServer:
    """Answers while the block runs.

    Args:
        address: where to listen.
        look: called for each request, in a thread.

    Raises:
        PortInUse: the address cannot be used.
    """

    def __init__(self, address: HealthAddress, look: Callable[[], ProcessHealth]) -> None:
        try:
            self._server = _HealthServer(address, look)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
            raise PortInUse(
                f"port {address.port} on {address.host} {why}", hint="choose another one with --health-port"
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.5,), name="health", daemon=True
        )
        os.register_at_fork(after_in_child=self._server.socket.close)

    def __enter__(self) -> HealthServer:
        self._thread.start()
        log.info("health.listening", extra={"port": self.port})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _HealthServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: HealthAddress, look: Callable[[], ProcessHealth]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.look = look
        self._places = threading.BoundedSemaphore(AT_ONCE)
        super().__init__((address.host, address.port), _HealthAnswer)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle of its request is no trouble of ours."""


class _HealthAnswer(BaseHTTPRequestHandler):
    server: _HealthServer
    timeout = REQUEST_S
    server_version, sys_version = "pipeweave", ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/health":
            self._send(404, {"error": "there is only GET /health here"})
            return
        health = self.server.look()
        self._send(200 if health.is_healthy else 503, health.document)

    def _send(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: nobody wants a line for each."""
