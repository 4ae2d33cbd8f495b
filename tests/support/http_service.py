"""An HTTP worker as the original Node SDK is one: it registers, takes dispatches, uses storage, reports.

It is a real HTTP server of this process. A test says what each of its tasks does, and may make it misbehave.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from pipeweave.storage import tokens

SDK_TASK = {
    "codeHash": "0123456789abcdef",
    "allowedNext": [],
    "timeout": 300,
    "retries": 3,
    "retryBackoff": "fixed",
    "retryDelayMs": 10,
    "maxRetryDelayMs": 86400000,
    "heartbeatIntervalMs": 60000,
    "concurrency": 0,
    "priority": 100,
    "idempotencyTTL": 86400,
}

Task = Callable[["Dispatch"], Any]


class TaskFailed(Exception):
    """A task's own failure, with a code."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Dispatch:
    """A dispatch that the service took."""

    service: HttpService
    body: dict[str, Any]

    @property
    def run_id(self) -> str:
        return str(self.body["runId"])

    @property
    def folder(self) -> Path:
        opened = tokens.open_sealed(self.body["storageToken"], self.service.secret, now=time.time())
        return Path(opened["credentials"]["basePath"])

    @property
    def input(self) -> Any:
        return json.loads((self.folder / self.body["inputPath"]).read_text())

    @property
    def upstream(self) -> dict[str, Any]:
        refs = self.body["upstreamRefs"]
        return {step: json.loads((self.folder / ref["outputPath"]).read_text()) for step, ref in refs.items()}

    def write(self, name: str, content: bytes) -> str:
        """Write an object of the attempt; returns its path."""
        path = f"runs/{self.run_id}/{name}"
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return path

    def succeed(self, output: Any, **more: Any) -> tuple[int, Any]:
        """Store the output and report it as the SDK does."""
        path = self.write("output.json", json.dumps(output, indent=2).encode())
        logs = self.write("logs.jsonl", b"")
        report = {"status": "success", "outputPath": path, "assets": {}, "logsPath": logs, **more}
        return self.service.report(self.run_id, report)

    def fail(self, error: str, code: str | None = None) -> tuple[int, Any]:
        """Report a failure."""
        report = {"status": "failed", "error": error} | ({} if code is None else {"errorCode": code})
        return self.service.report(self.run_id, report)


@dataclass
class HttpService:
    """A running service.

    Args:
        orchestrator: the URL that it has as `orchestratorUrl`.
        tasks: what each task does with a dispatch; it returns the output, or raises TaskFailed.
        answer: (status, headers) of the answer to a dispatch; None for 202.
    """

    orchestrator: str
    secret: str
    tasks: Mapping[str, Task]
    service_id: str = "node"
    port: int = 0
    dispatches: list[Dispatch] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: Callable[[Dispatch], tuple[int, dict[str, str]] | None] = lambda _: None
    uses_older_paths: bool = False
    pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(maxsize=32))

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def register(self, version: str = "1.0.0", **options: Any) -> tuple[int, Any]:
        """Register as the SDK does; the status and the body of the answer."""
        tasks = [{"id": name, **SDK_TASK, **options} for name in self.tasks]
        path = "/api/register" if self.uses_older_paths else "/api/services"
        body = {"serviceId": self.service_id, "version": version, "baseUrl": self.url, "tasks": tasks}
        return self.post(path, body)

    def report(self, run_id: str, report: Mapping[str, Any]) -> tuple[int, Any]:
        older = f"/api/callback/{run_id}"
        return self.post(older if self.uses_older_paths else f"/api/task-runs/{run_id}/complete", report)

    def heartbeat(self, run_id: str, **said: Any) -> tuple[int, Any]:
        if self.uses_older_paths:
            return self.post("/api/progress" if said else "/api/heartbeat", {"runId": run_id, **said})
        return self.post(f"/api/task-runs/{run_id}/heartbeat", said)

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        answer = self.pool.request("POST", self.orchestrator + path, json=body, retries=False, timeout=30)
        return answer.status, answer.json() if answer.data else None

    def of(self, task_id: str) -> list[Dispatch]:
        """The dispatches of a task, as they came."""
        return [each for each in self.dispatches if each.body["taskId"] == task_id]

    def work(self, dispatch: Dispatch) -> None:
        """Do the task of a dispatch and report its end, like the SDK."""
        try:
            output = self.tasks[dispatch.body["taskId"]](dispatch)
        except TaskFailed as error:
            dispatch.fail(str(error), error.code)
        except Exception as error:
            dispatch.fail(f"{type(error).__name__}: {error}")
        else:
            if output is not NO_REPORT:
                dispatch.succeed(output)


NO_REPORT = object()


@contextmanager
def http_service(
    orchestrator: str, secret: str, tasks: Mapping[str, Task], *, port: int = 0, **options: Any
) -> Iterator[HttpService]:
    """Run a service until the block ends."""
    service = HttpService(orchestrator, secret, tasks, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"status": "healthy", "service": service.service_id})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            task_id = self.path.rpartition("/")[2]
            if task_id not in service.tasks:
                self._send(404, {"error": f"Task '{task_id}' not found"})
                return
            dispatch = Dispatch(service, body)
            service.headers.append({**self.headers, "path": self.path})
            service.dispatches.append(dispatch)
            instead = service.answer(dispatch)
            if instead is not None:
                self._send(instead[0], {"error": "not now"}, instead[1])
                return
            self._send(202, {"acknowledged": True, "runId": body["runId"]})
            threading.Thread(target=service.work, args=(dispatch,), daemon=True).start()

        def _send(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
            data = json.dumps(document).encode()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", port), Handler)
    service.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
