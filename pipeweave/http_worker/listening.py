"""Listen for requests, and serve a WSGI application with waitress in a thread of its own."""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from pipeweave.errors import InvalidInput, MissingExtra, PortInUse
from pipeweave.size_limits import MAX_BODY_BYTES

# Requests that are answered at once. An answer never waits for a task.
THREADS = 4
# Connections that are open at once; the orchestrator keeps some open.
CONNECTIONS = 500
_BACKLOG = 256


class Listener:
    """A server on one address. The port is bound when it is made, so that its number is known.

    Raises:
        PortInUse: another program listens there.
        InvalidInput: this machine has no such address.
        MissingExtra: waitress is not installed.
    """

    def __init__(self, host: str, port: int) -> None:
        if find_spec("waitress") is None:
            raise MissingExtra(
                "an HTTP worker needs packages that are not installed (waitress)",
                hint="pip install 'pipeweave[http]'",
            )
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._map: dict[int, Any] = {}
        self._server: Any = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(
        self, application: Any, *, threads: int = THREADS, largest_body: int = 2 * MAX_BODY_BYTES
    ) -> None:
        """Begin to serve.

        Args:
            application: a WSGI application.
            threads: requests that are answered at once.
            largest_body: bytes. The application's own limit has the better answer; this one cuts the
                connection.
        """
        from waitress import create_server

        self._server = create_server(
            application,
            map=self._map,
            sockets=[self._socket],
            threads=threads,
            connection_limit=CONNECTIONS,
            max_request_body_size=largest_body,
            inbuf_overflow=2 * MAX_BODY_BYTES,
            clear_untrusted_proxy_headers=True,
            ident=None,
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop to listen, after the answers that are under way; close every connection."""
        self._is_stopping = True
        if self._server is None:
            self._socket.close()
            return
        self._server.task_dispatcher.shutdown(timeout=1)
        # The loop may have ended by itself, and closed its trigger.
        with suppress(OSError):
            self._server.pull_trigger()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        from waitress import wasyncore

        while not self._is_stopping:
            wasyncore.loop(timeout=1, use_poll=True, map=self._map, count=1)
        # What is answered already leaves before the connections are closed.
        wasyncore.loop(timeout=0, use_poll=True, map=self._map, count=1)
        wasyncore.close_all(self._map, ignore_all=True)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} is in use", hint="give another port; 0 takes a free one") from error
        raise InvalidInput(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


def own_address(orchestrator_url: str) -> str:
    """The address of this machine on the way to the orchestrator: there it can be reached from."""
    parts = urlsplit(orchestrator_url)
    host, port = parts.hostname or "localhost", parts.port or 80
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            # Sends nothing: it only asks the system which way the packets would take.
            probe.connect(target)
            address: str = probe.getsockname()[0]
    except OSError:
        return socket.gethostname()
    return f"[{address}]" if ":" in address else address
