"""A server that hooks call: it notes who called, and for a while takes calls without ever answering them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pipeweave.up.ports import LOOPBACK

Way = Literal["answer", "hang", "drip"]
# How often a hanging call looks whether the fault is over (s), and what a dripping one sends byte by byte.
EVERY_S = 0.2
_DRIP = b"HTTP/1.0 503 Busy\r\nX-Slow: "


class Listener:
    """Answers calls of hooks with 204, until `close`.

    Args:
        calls: by the id of a fire: how often it was answered.
        unanswered: calls that came while it hung or dripped.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.unanswered = 0
        self.way: Way = "answer"
        self.lock = threading.Lock()
        self._server = _Server((LOOPBACK, 0), _conversation(self))
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}/ended"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @contextmanager
    def misbehaving(self, way: Way) -> Iterator[None]:
        """Hang or drip for every call of the block."""
        self.unanswered, self.way = 0, way
        try:
            yield
        finally:
            self.way = "answer"

    def close(self) -> None:
        """Stop listening."""
        self.way = "answer"
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The caller gave up, or was killed."""


def _conversation(listener: Listener) -> type[BaseHTTPRequestHandler]:
    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            if listener.way != "answer":
                with listener.lock:
                    listener.unanswered += 1
                self._keep_waiting()
                return
            with listener.lock:
                listener.calls[str(body["id"])] += 1
            self.send_response(204)
            self.end_headers()

        def _keep_waiting(self) -> None:
            """Say nothing, or a byte now and then that never becomes an answer."""
            self.close_connection = True
            sent = 0
            while listener.way != "answer":
                if listener.way == "drip":
                    self.wfile.write(_DRIP[sent : sent + 1] or b"x")
                    self.wfile.flush()
                    sent += 1
                time.sleep(EVERY_S)

        def log_message(self, *_: object) -> None:
            pass

    return Conversation
