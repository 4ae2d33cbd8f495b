"""Serve the API of an embedded orchestrator by HTTP, in threads of the program."""

from __future__ import annotations

from types import TracebackType
from typing import Any
from weakref import WeakSet

from pipeweave.http_worker.listening import Listener
from pipeweave.size_limits import MAX_BODY_BYTES, MAX_UPLOAD_BYTES

# Requests that are worked on at a time, as in a process of `pipeweave api`.
THREADS = 8


class EmbeddedServer:
    """A server on one address; its port is bound when it is made.

    Raises:
        PortInUse: another program listens there.
        InvalidInput: this machine has no such address.
        MissingExtra: the packages of the extra `http` are not installed.
    """

    def __init__(self, application: Any, host: str, port: int) -> None:
        self._application = application
        # Of streams that are under way: each holds a thread until it ends.
        self._streams: WeakSet[Any] = WeakSet()
        self._listener = Listener(host, port)
        self._host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self._is_stopped = False

    @property
    def port(self) -> int:
        """The port; the one that was free if 0 was asked for."""
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL on this machine."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> EmbeddedServer:
        """Begin to serve in the background."""
        self._listener.start(self._answer, threads=THREADS, largest_body=MAX_UPLOAD_BYTES + MAX_BODY_BYTES)
        return self

    def stop(self) -> None:
        """End its streams, and stop to listen, after the answers that are under way."""
        if not self._is_stopped:
            self._is_stopped = True
            for each in list(self._streams):
                each.end(None)
            self._listener.stop()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        from pipeweave.api.http.streaming import STREAMS

        environ[STREAMS] = self._streams
        return self._application(environ, start_response)

    def __enter__(self) -> EmbeddedServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
