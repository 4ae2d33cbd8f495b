"""The bare loop of HTTP posts: Flask under gunicorn posts dispatches and takes their reports. It stores
nothing: what it forgets is lost.

gunicorn -k gthread --threads 8 'benchmarks.plain.http_loop:loop()'
"""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, request

from benchmarks.systems import DEADLINE_S

# As many as PipeWeave sends at once from one process.
AT_ONCE = 16


class Loop:
    """Posts the same dispatch again and again, under new run ids."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._connections = threading.local()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._left = self._unsent = 0
        self._done = threading.Event()
        self._target = ""
        self._dispatch: dict[str, Any] = {}
        self._headers: dict[str, str] = {}

    def run(self, order: dict[str, Any]) -> None:
        """Post `count` dispatches, `wide` of them at once, each of the others after a report."""
        self._target, self._dispatch, self._headers = order["target"], order["dispatch"], order["headers"]
        self._left = self._unsent = int(order["count"])
        self._done.clear()
        for _ in range(min(int(order["wide"]), self._left)):
            self._next()
        if not self._done.wait(DEADLINE_S):
            raise TimeoutError

    def reported(self) -> None:
        """A report came: post the next dispatch."""
        with self._lock:
            self._left -= 1
            is_done = self._left == 0
        if is_done:
            self._done.set()
        else:
            self._next()

    def _next(self) -> None:
        with self._lock:
            if self._unsent == 0:
                return
            self._unsent -= 1
        self._threads.submit(self._post)

    def _post(self) -> None:
        parts = urlsplit(self._target)
        connection = getattr(self._connections, "kept", None)
        if connection is None:
            connection = self._connections.kept = HTTPConnection(parts.hostname or "", parts.port)
        body = json.dumps({**self._dispatch, "runId": f"bare-{next(self._numbers)}"}).encode()
        connection.request("POST", parts.path, body, {"Content-Type": "application/json", **self._headers})
        connection.getresponse().read()


def loop() -> Flask:
    """The program."""
    app, state = Flask(__name__), Loop()

    @app.get("/")
    def ready() -> Any:
        return {}

    @app.post("/run")
    def run() -> Any:
        state.run(request.get_json())
        return {}

    @app.post("/api/task-runs/<run_id>/complete")
    def complete(run_id: str) -> Any:
        assert request.get_json()["status"] == "success"
        state.reported()
        return {"acknowledged": True, "queuedDownstream": 1}

    return app
