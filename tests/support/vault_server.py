"""A small real server that plays Vault's key-value engine, version 2, as its API documents it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

TOKEN = "hvs.vault-token-of-the-test"


@dataclass(slots=True)
class FakeVault:
    """What the server has.

    Args:
        url: where it is.
        secrets: fields by path, below the mount `secret`.
        denied: paths that the token may not read.
        asked: the paths that were asked for, and the namespaces.
        hangs: answers nothing until it is set.
    """

    url: str
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    hangs: threading.Event | None = None

    def answer(self, path: str, token: str | None) -> tuple[int, Any]:
        begin = "/v1/secret/data/"
        name = path.removeprefix(begin)
        if not path.startswith(begin) or token != TOKEN or name in self.denied:
            return 403, {"errors": ["permission denied"]}
        if name not in self.secrets:
            return 404, {"errors": []}
        version = {"version": 1, "destroyed": False, "deletion_time": ""}
        return 200, {"data": {"data": self.secrets[name], "metadata": version}}


@contextmanager
def vault() -> Iterator[FakeVault]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(self.path)
            here.asked.append((path, self.headers.get("X-Vault-Namespace")))
            if here.hangs is not None:
                here.hangs.wait()
            status, document = here.answer(path, self.headers.get("X-Vault-Token"))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    with Quiet(("127.0.0.1", 0), Handler) as server:
        here = FakeVault(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield here
        finally:
            if here.hangs is not None:
                here.hangs.set()
            server.shutdown()
            thread.join()
