"""The kit's orchestrator: takes registrations, heartbeats and reports in both spellings, and notes them all.

How it answers a run's reports is set before the run is dispatched: a check can refuse, delay or cut them.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeweave.conformance.http_server import Response, WorkerRequest, json_response
from pipeweave.conformance.journal import Journal, ReceivedRequest, RequestKind
from pipeweave.conformance.objects import PREFIX, URL_SECONDS, Objects

TENANT = "check"
# An answer that is held back is given after this (s), whatever happens.
LONGEST_HOLD_S = 20.0

_PREFIXED = re.compile(r"/w/(?P<tenant>[^/]+)/(?P<token>[^/]+)(?P<rest>/.*)\Z")
_ROUTES: tuple[tuple[str, re.Pattern[str], RequestKind], ...] = tuple(
    (method, re.compile(rf"{path}\Z"), kind)
    for method, path, kind in (
        ("POST", "/api/(?:services|register)", RequestKind.REGISTRATION),
        ("DELETE", "/api/services/[^/]+/instances", RequestKind.DEPARTURE),
        ("POST", "/api/task-runs/(?P<run>[^/]+)/heartbeat", RequestKind.HEARTBEAT),
        ("POST", "/api/(?:heartbeat|progress)", RequestKind.HEARTBEAT),
        ("POST", "/api/(?:task-runs/(?P<run>[^/]+)/complete|callback/(?P<other>[^/]+))", RequestKind.REPORT),
        ("POST", "/api/task-runs/(?P<run>[^/]+)/urls", RequestKind.URLS),
        ("GET", f"{PREFIX}.+", RequestKind.READ),
        ("HEAD", f"{PREFIX}.+", RequestKind.READ),
        ("PUT", f"{PREFIX}.+", RequestKind.WRITE),
    )
)
_ASSET_KEY = re.compile(r"(?!\.+\Z)[^/\\\0]{1,200}\Z")
CUT = Response(0, is_cut=True)
OUTAGE = json_response(503, {"error": "the kit plays an outage"})
STALE = json_response(
    409, {"status": 409, "code": "STALE_REPORT", "error": "the attempt is not running any more"}
)


@dataclass
class DispatchedRun:
    """A run that the kit dispatched, and how it answers about it.

    Args:
        run_id: the dispatch id.
        refusals: the answers to its next reports, before one is taken.
        is_stale: whether every report is refused as too late.
        should_cancel: what heartbeats are answered.
        settled: the report that was taken.
    """

    run_id: str
    task_id: str
    refusals: list[Response] = field(default_factory=list)
    is_stale: bool = False
    should_cancel: bool = False
    settled: Any = None
    _open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._open.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the answers to its reports back until the block ends."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def wait_until_open(self) -> None:
        """Wait while answers are held back."""
        self._open.wait(LONGEST_HOLD_S)


class StandIn:
    """Answers a worker's requests as an orchestrator does.

    Args:
        objects: where the runs' objects are.
    """

    def __init__(self, objects: Objects) -> None:
        self.journal = Journal()
        self.token = secrets.token_urlsafe(12)
        self._objects = objects
        self._runs: dict[str, DispatchedRun] = {}

    def add(self, run: DispatchedRun) -> None:
        """Know a run before it is dispatched."""
        self._runs[run.run_id] = run

    def answer(self, request: WorkerRequest) -> Response:
        """Note a request, and answer it."""
        path, has_credential = self._without_prefix(request)
        kind, named = _route(request.method, path)
        body = request.json()
        if kind is RequestKind.HEARTBEAT and named is None and isinstance(body, dict):
            named = str(body.get("runId", ""))
        run = self._runs.get(named or "")
        if named is not None and run is None:
            kind = RequestKind.STRAY
        headers = request.headers
        self.journal.record(
            ReceivedRequest(
                kind, request.method, path, named, body, headers, has_credential, time.monotonic()
            )
        )
        if kind in (RequestKind.READ, RequestKind.WRITE):
            return self._object(request, path.removeprefix(PREFIX))
        if run is None:
            return _without_run(kind, named, body)
        if kind is RequestKind.HEARTBEAT:
            return json_response(200, {"acknowledged": True, "shouldCancel": run.should_cancel})
        return self._urls(run, body) if kind is RequestKind.URLS else _take_report(run, body)

    def _without_prefix(self, request: WorkerRequest) -> tuple[str, bool]:
        """The path below the orchestrator's URL, and whether the request carried the kit's token."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if match := _PREFIXED.match(request.path):
            return match["rest"], self.token in (match["token"], bearer)
        return request.path, bearer == self.token

    def _object(self, request: WorkerRequest, path: str) -> Response:
        method = "PUT" if request.method == "PUT" else "GET"
        if not self._objects.allows(path, method, request.query):
            return json_response(403, {"error": "this URL was not made by the kit, or has expired"})
        if method == "PUT":
            self._objects.put(path, request.body)
            return json_response(200, {})
        content = self._objects.get(path)
        if content is None:
            return json_response(404, {"error": "there is no such object"})
        return Response(200, content, {"Content-Type": "application/octet-stream"})

    def _urls(self, run: DispatchedRun, body: Any) -> Response:
        wanted = body if isinstance(body, dict) else {}
        read, keys = wanted.get("get", []), wanted.get("put", [])
        if not (_are_texts(read) and _are_texts(keys) and all(map(_ASSET_KEY.match, keys))):
            return json_response(
                400, {"code": "INVALID_INPUT", "error": "expected {get: [paths], put: [keys]}"}
            )
        written = {key: f"runs/{run.run_id}/assets/{key}" for key in keys}
        return json_response(
            200,
            {
                "get": {path: self._objects.url(path, "GET") for path in read},
                "put": {
                    key: {"path": path, "url": self._objects.url(path, "PUT")}
                    for key, path in written.items()
                },
                "expiresAt": (datetime.now(UTC) + timedelta(seconds=URL_SECONDS)).isoformat(),
            },
        )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _route(method: str, path: str) -> tuple[RequestKind, str | None]:
    """What a request is, and the run that its path names."""
    for wanted, form, kind in _ROUTES:
        if method == wanted and (match := form.match(path)):
            named = match.groupdict()
            return kind, named.get("run") or named.get("other")
    return RequestKind.STRAY, None


def _without_run(kind: RequestKind, named: str | None, body: Any) -> Response:
    """The answer to a request that speaks of no run, or of an unknown one."""
    if named is not None:
        return json_response(401, {"code": "UNAUTHENTICATED", "error": "this run was not dispatched"})
    if kind is RequestKind.REGISTRATION and isinstance(body, dict):
        return json_response(200, {"success": True, "codeChanges": [], "orphanedTasks": []})
    if kind is RequestKind.REGISTRATION:
        return json_response(400, {"code": "MALFORMED_JSON", "error": "the body is not a JSON object"})
    if kind is RequestKind.DEPARTURE:
        return json_response(200, {"success": True})
    return json_response(404, {"code": "NOT_FOUND", "error": "the kit serves no such path"})


def _take_report(run: DispatchedRun, body: Any) -> Response:
    run.wait_until_open()
    if run.refusals:
        return run.refusals.pop(0)
    if run.is_stale:
        return STALE
    if run.settled is None:
        run.settled = body
        return json_response(200, {"acknowledged": True, "queuedDownstream": 0})
    if run.settled == body:
        return json_response(200, {"acknowledged": True, "isRepeated": True})
    return STALE
