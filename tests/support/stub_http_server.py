"""A small real HTTP server that answers what each test puts there."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Status and body, and headers of the answer's own, if it has any.
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]
NOT_FOUND: Answer = (404, {"title": "the test has no answer to this"})


class Served:
    """Answers by method and path; a list of answers is given one after the other, the last one for ever.

    What has no answer is not found: a thread of a test that ended may still ask, while another test reads
    what is printed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []

    def put(self, request: str, *answers: Answer) -> None:
        self.answers[request] = list(answers)

    def next(self, request: str) -> Answer:
        waiting = self.answers.get(request) or [NOT_FOUND]
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


class _Quiet(ThreadingHTTPServer):
    """Says nothing of a client that went away: tests read what is printed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving() -> Iterator[Served]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = f"{self.command} {self.path}"
            here.asked.append((request, dict(self.headers), _document(body)))
            status, document, *headers = here.next(request)
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = respond

        def log_message(self, *_: object) -> None:
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    here = Served(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield here
    server.shutdown()
    thread.join()
    server.server_close()


def _document(body: bytes) -> Any:
    """A request's JSON; its bytes if it is none."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body
