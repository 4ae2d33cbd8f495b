"""The HTTP side of an HTTP worker: answers dispatches and questions about its health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from pipeweave.authoring import Task
from pipeweave.errors import (
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    PipeWeaveError,
    Unauthenticated,
    Unavailable,
)
from pipeweave.http_worker.dispatch import Dispatch, parse
from pipeweave.http_worker.under_way import Taken, UnderWay
from pipeweave.signatures import HEADER, is_valid
from pipeweave.size_limits import MAX_BODY_BYTES

# A dispatch that finds the worker full should be sent again after so many seconds.
RETRY_AFTER_S = 1

_SIGNATURE = f"HTTP_{HEADER.upper().replace('-', '_')}"
_REASONS = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    503: "Service Unavailable",
}

Environ = Mapping[str, Any]
Header = tuple[str, str]
StartResponse = Callable[[str, list[Header]], object]


class Full(Unavailable):
    """The worker runs as many attempts as it may."""

    status = 429


class Application:
    """The WSGI application of a worker.

    Args:
        service: shown by `/health`: service and version.
        secret: the worker secret; None to take dispatches without a signature.
        prefix: the path of the worker's base URL, if a proxy takes it away before it hands a request on.
    """

    def __init__(
        self,
        service: Mapping[str, str],
        tasks: Mapping[str, Task[..., Any]],
        under_way: UnderWay,
        secret: str | None,
        prefix: str = "",
    ) -> None:
        self._service = service
        self._tasks = tasks
        self._under_way = under_way
        self._secret = secret
        self._prefix = prefix

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            status, answer = self._answer(environ)
        except PipeWeaveError as error:
            status, answer = error.status, error.to_problem() | {"status": error.status}
        content = orjson.dumps(answer)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        if status == Full.status:
            headers.append(("Retry-After", str(RETRY_AFTER_S)))
        start_response(f"{status} {_REASONS.get(status, 'Error')}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

    def _answer(self, environ: Environ) -> tuple[int, dict[str, Any]]:
        method, path = environ["REQUEST_METHOD"], _path(environ)
        if path == "/health":
            _require(method, ("GET", "HEAD"))
            return 200, self._health()
        task_id = path.removeprefix("/tasks/")
        if task_id == path or not task_id or "/" in task_id:
            raise NotFound(f"there is nothing at {path[:200]!r}", hint="dispatches go to /tasks/<task id>")
        _require(method, ("POST",))
        return 202, self._dispatched(task_id, path, environ)

    def _health(self) -> dict[str, Any]:
        return {
            "status": "draining" if self._under_way.is_draining else "healthy",
            **self._service,
            "tasks": sorted(self._tasks),
            "running": self._under_way.count,
            "capacity": self._under_way.capacity,
        }

    def _dispatched(self, task_id: str, path: str, environ: Environ) -> dict[str, Any]:
        body = _body(environ)
        self._check_signature(environ.get(_SIGNATURE), path, body)
        dispatch: Dispatch = parse(body)
        if task_id not in self._tasks:
            known = f"the tasks are {', '.join(sorted(self._tasks)[:20])}"
            raise NotFound(f"this worker has no task {task_id[:200]!r}", hint=known)
        match self._under_way.take(task_id, dispatch):
            case Taken.FULL:
                raise Full(f"this worker runs {self._under_way.capacity} attempts, as many as it may")
            case Taken.DRAINING:
                raise Unavailable("this worker is about to stop")
            case Taken.AGAIN:
                return {"acknowledged": True, "runId": dispatch.run_id, "isRepeated": True}
            case Taken.TAKEN:
                return {"acknowledged": True, "runId": dispatch.run_id}

    def _check_signature(self, header: str | None, path: str, body: bytes) -> None:
        if self._secret is None:
            return
        if header is None:
            raise Unauthenticated(
                f"the dispatch has no {HEADER}", hint="only the orchestrator may dispatch to this worker"
            )
        paths = {path, f"{self._prefix}{path}"}
        if not any(is_valid(self._secret, header, each, body, time.time()) for each in paths):
            raise Unauthenticated(
                f"the {HEADER} does not fit",
                hint="worker and orchestrator need the same secret (`pipeweave services secret`), and clocks "
                "that differ by less than 5 minutes",
            )


def _path(environ: Environ) -> str:
    # The path as it was sent: the signature is of it.
    return str(environ.get("REQUEST_URI") or environ["PATH_INFO"]).partition("?")[0]


def _body(environ: Environ) -> bytes:
    length = environ.get("CONTENT_LENGTH") or "0"
    if int(length) > MAX_BODY_BYTES:
        raise PayloadTooLarge(f"a dispatch has at most {MAX_BODY_BYTES} bytes")
    return bytes(environ["wsgi.input"].read(int(length)))


def _require(method: str, allowed: tuple[str, ...]) -> None:
    if method not in allowed:
        raise MethodNotAllowed(f"{method} is not allowed here", hint=f"use {allowed[0]}")
