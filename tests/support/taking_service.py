"""An HTTP service that takes dispatches and does nothing else; a test says how it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from support.servers import wait_until


@dataclass
class TakingService:
    """A running service.

    Args:
        answer: the status of the answer to a dispatch; called before the answer leaves.
        taken: the bodies of the dispatches, as they came.
    """

    url: str
    answer: Callable[[], int] = lambda: 202
    taken: list[dict[str, Any]] = field(default_factory=list)

    def dispatches(self, number: int) -> list[dict[str, Any]]:
        """The dispatches, when so many have come."""
        wait_until(lambda: len(self.taken) >= number, what=f"{number} dispatches, and not {len(self.taken)}")
        return self.taken


@contextmanager
def taking_service() -> Iterator[TakingService]:
    """Run a service until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            service.taken.append(orjson.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(service.answer())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    service = TakingService(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
