"""A small orchestrator by HTTP for the tests of HTTP workers: it registers, dispatches, and notes reports."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pipeweave import HttpWorker
from pipeweave.signatures import HEADER, sign

SECRET = "5e" * 32
WAIT_S = 20.0

Answer = tuple[int, Any]
# Starts a worker with these tasks.
Serve = Callable[..., HttpWorker]


class FakeOrchestrator:
    """What the server has been told, and what it answers.

    Attributes:
        objects: stored objects by path; URLs that the dispatches hold read and write them.
        answers: answers by kind of request (`register`, `heartbeat`, `complete`, `urls`, `leave`, `object`):
            each is given once, then the usual one again.
        before_registered: is called before a registration is answered.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[str, bytes] = {}
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.registrations: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.changed = threading.Condition()
        self.before_registered: Callable[[], object] = bool

    # --- what the test does -------------------------------------------------------------------------------

    def dispatch(self, task: str, run_id: str = "trun_1.1.mac", /, **members: Any) -> Answer:
        """Dispatch to the worker that registered last; members that are None are left out."""
        input = members.pop("input", {})
        self.objects[f"pipelines/{run_id}/input.json"] = json.dumps(input).encode()
        body = {
            "runId": run_id,
            "taskId": task,
            "attempt": 1,
            "tenant": "default",
            "inputPath": f"pipelines/{run_id}/input.json",
            "inputUrl": f"/objects/pipelines/{run_id}/input.json",
            "upload": {
                "output": f"/objects/runs/{run_id}/output.json",
                "logs": f"/objects/runs/{run_id}/logs.jsonl",
            },
            "upstreamRefs": {},
            "heartbeatIntervalMs": 60_000,
            **members,
        }
        return self.post(f"/tasks/{task}", {name: each for name, each in body.items() if each is not None})

    def post(self, path: str, body: Any, secret: str | None = SECRET, at: float | None = None) -> Answer:
        """Send a request to the worker, signed unless `secret` is None."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if secret is not None:
            headers[HEADER] = sign(secret, int(time.time() if at is None else at), path, data)
        return self.request("POST", path, data, headers)

    def request(
        self, method: str, path: str, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        parts = urlsplit(self.registrations[-1]["baseUrl"])
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
        try:
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def wait(self, found: Callable[[], Any]) -> Any:
        """Wait until `found` gives something, and return it."""
        until = time.monotonic() + WAIT_S
        while not (result := found()):
            assert time.monotonic() < until, f"it did not happen; asked: {self.asked}"
            with self.changed:
                self.changed.wait(0.02)
        return result

    def report(self, run_id: str = "trun_1.1.mac") -> dict[str, Any]:
        """Wait for the report that was answered well, and return it."""
        found: dict[str, Any] = self.wait(lambda: next(iter(self.reports(run_id)), None))
        return found

    def reports(self, run_id: str = "trun_1.1.mac") -> list[dict[str, Any]]:
        return [body for kind, about, body in list(self.asked) if (kind, about) == ("complete", run_id)]

    def count(self, kind: str) -> int:
        return sum(each[0] == kind for each in list(self.asked))

    # --- what it answers ----------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        kind, about = _kind(method, path)
        with self.changed:
            waiting = self.answers.get(kind)
            given = waiting.pop(0) if waiting else None
            if kind != "object" and (given is None or given[0] < 300):
                self.asked.append((kind, about or str(query.get("baseUrl", [""])[0]), body))
                if kind == "register":
                    self.registrations.append(body)
            elif kind != "object":
                self.asked.append((f"refused {kind}", about, body))
            found = given or self._usual(kind, about, method, body)
            self.changed.notify_all()
        if kind == "register":
            self.before_registered()
        return found

    def _usual(self, kind: str, about: str, method: str, body: Any) -> Answer:
        match kind:
            case "register":
                return 200, {"success": True, "codeChanges": [], "orphanedTasks": []}
            case "heartbeat":
                return 200, {"acknowledged": True, "shouldCancel": False}
            case "object" if method == "PUT":
                self.objects[about] = body
                return 200, None
            case "object":
                return (200, self.objects[about]) if about in self.objects else (404, None)
            case "urls":
                own = f"runs/{about}/assets"
                return 200, {
                    "get": {path: f"/objects/{path}" for path in body.get("get", [])},
                    "put": {
                        key: {"path": f"{own}/{key}", "url": f"/objects/{own}/{key}"}
                        for key in body.get("put", [])
                    },
                }
            case "page":
                return 200, json.loads(self.objects[about])
            case _:
                return 200, {"acknowledged": True}


def _kind(method: str, path: str) -> tuple[str, str]:
    parts = path.strip("/").split("/")
    match parts:
        case ["objects", *rest]:
            return "object", "/".join(rest)
        case ["pages", *rest]:
            return "page", "/".join(rest)
        case ["api", "services"]:
            return "register", ""
        case ["api", "services", _, "instances"]:
            return "leave", ""
        case ["api", "task-runs", run_id, what]:
            return what, run_id
        case _:
            return "unknown", path


@contextmanager
def orchestrating() -> Iterator[FakeOrchestrator]:
    """Serve until the block ends."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            is_object = parts.path.startswith("/objects/")
            here.headers.append(dict(self.headers))
            body = data if is_object else json.loads(data) if data else None
            status, document = here.answer(self.command, parts.path, parse_qs(parts.query), body)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    server.daemon_threads = True
    here = FakeOrchestrator(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield here
    server.shutdown()
    thread.join()
    server.server_close()
