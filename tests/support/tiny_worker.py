"""A small HTTP worker that keeps the whole protocol, and that can break each of its rules.

`python tiny_worker.py FAULT,FAULT` runs it as a process. A fault has the name of the check that must find it.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pipeweave import signatures
from pipeweave.errors import PipeWeaveError

MAX_BODY = 10_000_000
SLOW_S = 5.0
INTERVAL_MS = 400
RETRIES = 6


class Cancelled(Exception):
    """The orchestrator wants the run to end."""


class TinyWorker:
    """Serves from the start until `stop`.

    Args:
        access: `urls` or `token`.
        faults: the rules to break.
    """

    def __init__(
        self, orchestrator_url: str, secret: str, *, access: str = "urls", faults: Iterable[str] = ()
    ) -> None:
        self.orchestrator_url = orchestrator_url
        self.secret = secret
        self.access = access
        self.faults = frozenset(faults)
        self.known: set[str] = set()
        self.threads: list[threading.Thread] = []
        self.one_at_a_time = threading.Lock()
        self.is_dead = False
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _door(self))
        self.server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.serving = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.serving.start()

    def register(self) -> None:
        tasks = [self._task(name) for name in ("echo", "slow", "fail", "submit")]
        if "registration" in self.faults:
            tasks[0]["timeout"] = "300"
        if "doubtful-registration" in self.faults:
            tasks[0]["heartbeatIntervalMs"] = 60
        document = {"serviceId": "tiny", "version": "1.0.0", "baseUrl": self.base_url, "tasks": tasks}
        document |= {"storageAccess": self.access, "tokenFormat": "pbkdf2"}
        url = self.orchestrator_url
        if "credentials" in self.faults:
            url = url.partition("/w/")[0]
        _call("POST", f"{url}/api/services", document)

    def _task(self, name: str) -> dict[str, Any]:
        source = f"{name} {time.time() if 'restart' in self.faults else ''}"
        return {
            "id": name,
            "codeHash": hashlib.sha256(source.encode()).hexdigest()[:16],
            "allowedNext": [],
            "timeout": 60,
            "heartbeatIntervalMs": INTERVAL_MS,
        }

    def stop(self) -> None:
        self.server.shutdown()
        self.serving.join()
        self.server.server_close()

    def die(self) -> None:
        """What a program does that lets an exception escape."""
        self.is_dead = True
        self.stop()

    def finish(self) -> None:
        """Wait until everything that was taken is reported."""
        for thread in self.threads:
            thread.join()

    # --- what comes in ----------------------------------------------------------------------------------

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Take a dispatch, or say why not: the status of the answer."""
        task = path.removeprefix("/tasks/")
        if not self._is_signed(path, headers.get(signatures.HEADER), body):
            return 401
        if task not in ("echo", "slow", "fail", "submit") and "unknown-task" not in self.faults:
            return 404
        try:
            dispatch = json.loads(body)
        except ValueError:
            if "not-json" in self.faults:
                self.die()
            return 400
        if not isinstance(dispatch, dict):
            return 500 if "no-object" in self.faults else 400
        if not isinstance(dispatch.get("runId"), str) or not isinstance(dispatch.get("upstreamRefs"), dict):
            return 202 if "wrong-types" in self.faults else 400
        if dispatch["runId"] not in self.known or "duplicate-dispatch" in self.faults:
            self.known.add(dispatch["runId"])
            self._begin(task, dispatch)
        return 202

    def _is_signed(self, path: str, header: str | None, body: bytes) -> bool:
        if header is None:
            return "missing-signature" in self.faults
        now = float(header[2:].partition(",")[0]) if "old-signature" in self.faults else time.time()
        paths = [path, "/tasks/another-task"] if "foreign-path" in self.faults else [path]
        bodies = [body, body + b" "] if "wrong-signature" in self.faults else [body]
        return any(
            signatures.is_valid(self.secret, header, each, content, now)
            for each in paths
            for content in bodies
        )

    def _begin(self, task: str, dispatch: dict[str, Any]) -> None:
        thread = threading.Thread(target=self._carry_out, args=(task, dispatch), daemon=True)
        if "concurrent" in self.faults and not self.one_at_a_time.acquire(blocking=False):
            return
        self.threads.append(thread)
        thread.start()
        if "dispatch" in self.faults:
            thread.join()

    # --- the work ---------------------------------------------------------------------------------------

    def _carry_out(self, task: str, dispatch: dict[str, Any]) -> None:
        run = Run(self, dispatch)
        try:
            report = run.done(task)
        except (Cancelled, PipeWeaveError, RuntimeError, OSError, ValueError) as error:
            report = run.failure(error)
        finally:
            run.over.set()
        if "concurrent" in self.faults:
            time.sleep(0.2)
            self.one_at_a_time.release()
        if "next-attempt" not in self.faults or dispatch["attempt"] == 1:
            run.report(report)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the orchestrator."""
        return _call(method, f"{self.orchestrator_url}{path}", body)


class Run:
    """One dispatch that was taken."""

    def __init__(self, worker: TinyWorker, dispatch: dict[str, Any]) -> None:
        self.worker = worker
        self.dispatch = dispatch
        self.faults = worker.faults
        self.run_id: str = dispatch["runId"]
        self.over = threading.Event()
        self.is_cancelled = threading.Event()
        if "heartbeat" not in self.faults:
            threading.Thread(target=self._beat, daemon=True).start()

    def done(self, task: str) -> dict[str, Any]:
        """Do the work; the report of its success."""
        self._open_token()
        given = self._input()
        self._read_upstream()
        if task == "fail" and "failing-task" not in self.faults:
            raise RuntimeError("the task fails")
        if task == "slow":
            self._be_slow()
        if task == "submit":
            return {"status": "pending", **({} if "pending-task" in self.faults else {"callbackUrl": True})}
        output = json.dumps(given).encode()
        if "output" not in self.faults:
            self._write("output.json", output)
        line = {"timestamp": "2026-11-22T12:00:00Z", "level": "info", "runId": self.run_id, "message": "done"}
        self._write("logs.jsonl", b"done" if "logs" in self.faults else json.dumps(line).encode())
        size = 4 + ("assets" in self.faults)
        path = self._asset("note.txt", b"note")
        return {
            "status": "completed" if "report" in self.faults else "success",
            "outputPath": f"runs/{self.run_id}/output.json",
            "outputSize": len(output),
            "assets": {"note.txt": {"path": path, "size": size, "type": "text"}},
            "logsPath": f"runs/{self.run_id}/logs.jsonl",
        }

    def failure(self, error: Exception) -> dict[str, Any]:
        """The report of a failure."""
        code = getattr(error, "code", "CANCELLED" if isinstance(error, Cancelled) else "FAILED")
        if "forged-token" in self.faults and code == "INVALID_TOKEN" and "expired" not in str(error):
            code = "OOPS"
        return {"status": "failed", "error": str(error) or "cancelled", "errorCode": code}

    def report(self, report: dict[str, Any]) -> None:
        """Send a report until it is taken or refused."""
        if "strays" in self.faults:
            _try(lambda: self.worker.call("POST", "/api/unknown", {}))
        for _ in range(RETRIES):
            try:
                self.worker.call("POST", f"/api/task-runs/{self.run_id}/complete", report)
                return
            except urllib.error.HTTPError as error:
                if error.code < 500 and not (error.code == 409 and "stale-report" in self.faults):
                    return
                if error.code >= 500 and "report-outage" in self.faults:
                    return
            except (OSError, HTTPException):
                if "report-cut" in self.faults:
                    report = {"status": "failed", "error": "TypeError: fetch failed"}
            time.sleep(0.05)

    def _be_slow(self) -> None:
        if self.is_cancelled.wait(SLOW_S / 4 if "cancellation" in self.faults else SLOW_S):
            raise Cancelled

    def _beat(self) -> None:
        while not self.over.wait(INTERVAL_MS / 2000):
            answer = _try(lambda: self.worker.call("POST", f"/api/task-runs/{self.run_id}/heartbeat", {}))
            if isinstance(answer, dict) and answer["shouldCancel"] and "cancellation" not in self.faults:
                self.is_cancelled.set()

    # --- storage ----------------------------------------------------------------------------------------

    def _open_token(self) -> None:
        self.folder = Path()
        if self.worker.access == "token":
            from pipeweave.storage import tokens

            now = 0.0 if "expired-access" in self.faults else time.time()
            opened = tokens.open_sealed(self.dispatch["storageToken"], self.worker.secret, now=now)
            self.folder = Path(opened["credentials"]["basePath"])

    def _input(self) -> Any:
        try:
            content = self._get(self.dispatch["inputPath"], self.dispatch.get("inputUrl"))
        except (OSError, RuntimeError):
            if "missing-input" in self.faults:
                return {}
            raise
        if "large-input" in self.faults and len(content) > 1_000_000:
            raise RuntimeError("the input is too large")
        return json.loads(content)

    def _read_upstream(self) -> None:
        references = self.dispatch["upstreamRefs"]
        if "many-references" in self.faults and len(references) > 100:
            raise RuntimeError("too many references")
        if "upstream" in self.faults and 0 < len(references) < 100:
            raise RuntimeError("an output is an object")
        for each in references.values():
            json.loads(self._get(each["outputPath"], each.get("outputUrl")))

    def _get(self, path: str, url: str | None) -> bytes:
        return (self.folder / path).read_bytes() if url is None else _raw("GET", self._absolute(url))

    def _write(self, name: str, content: bytes) -> None:
        if self.worker.access == "token":
            self._write_file(f"runs/{self.run_id}/{name}", content)
        else:
            _raw("PUT", self._absolute(self.dispatch["upload"][name.partition(".")[0]]), content)

    def _asset(self, key: str, content: bytes) -> str:
        path = f"runs/{self.run_id}/assets/{key}"
        if self.worker.access == "token":
            self._write_file(path, content)
            return path
        made = self.worker.call("POST", f"/api/task-runs/{self.run_id}/urls", {"put": [key]})["put"][key]
        _raw("PUT", self._absolute(made["url"]), content)
        return str(made["path"])

    def _write_file(self, path: str, content: bytes) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)

    def _absolute(self, url: str) -> str:
        return f"{self.worker.orchestrator_url}{url}" if url.startswith("/") else url


def _door(worker: TinyWorker) -> type[BaseHTTPRequestHandler]:
    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._say(200 if self.path == "/health" and "health" not in worker.faults else 404)

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if size > MAX_BODY:
                if "huge" in worker.faults:
                    worker.die()
                self.close_connection = True
                self._say(413)
                return
            body = self.rfile.read(size)
            if len(body) < size:
                if "truncated" in worker.faults:
                    worker.die()
                self.close_connection = True
                return
            self._say(worker.take(self.path, self.headers, body))

        def _say(self, status: int) -> None:
            if worker.is_dead:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    return Conversation


def _call(method: str, url: str, document: Any) -> Any:
    return json.loads(_raw(method, url, None if document is None else json.dumps(document).encode()))


def _raw(method: str, url: str, content: bytes | None = None) -> bytes:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, content, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        # Its answer is a file, too, and Python 3.14 says so where nobody closes it.
        error.close()
        raise


def _try(call: Any) -> Any:
    try:
        return call()
    except OSError:
        return None


def main() -> None:
    """Run until SIGTERM; then finish what was taken, unless the fault `shutdown` is named."""
    # Blocked before there are threads, and taken by `sigwait`: a handler could miss its moment.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    faults = sys.argv[1].split(",") if len(sys.argv) > 1 else []
    worker = TinyWorker(
        os.environ["ORCHESTRATOR_URL"], os.environ["PIPEWEAVE_SECRET_KEY"], faults=filter(None, faults)
    )
    worker.register()
    signal.sigwait({signal.SIGTERM})
    if "shutdown" not in faults:
        worker.finish()
    worker.stop()


if __name__ == "__main__":
    main()
