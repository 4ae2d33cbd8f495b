"""Send a dispatch, or something that only looks like one, and say how the worker answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
import urllib3

from pipeweave import signatures

ANSWER_S = 5.0
"""How long a worker may take to answer a dispatch."""

# The kit waits longer than the orchestrator, to be able to tell slow from silent.
_PATIENCE_S = 6.5


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """How a worker answered a request.

    Args:
        status: of the answer; None where none came.
        seconds: from the request to the answer.
        problem: why none came.
    """

    status: int | None
    headers: Mapping[str, str]
    seconds: float
    problem: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether the worker took the dispatch."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_refused(self) -> bool:
        """Whether it answered that the request is at fault."""
        return self.status is not None and 400 <= self.status < 500

    def said(self) -> str:
        """The answer in a few words."""
        if self.status is None:
            return self.problem
        return f"{self.status} after {self.seconds * 1000:.0f} ms"


class Door:
    """The worker's side of the network: where dispatches go.

    Args:
        base_url: of the worker; a path prefix is kept.
        secret: the worker secret, which signs.
    """

    def __init__(self, base_url: str, secret: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._secret = secret
        self._pool = urllib3.PoolManager(
            maxsize=32, retries=False, timeout=urllib3.Timeout(connect=ANSWER_S, read=_PATIENCE_S)
        )

    def path_of(self, task_id: str) -> str:
        """The path that a task's dispatches are sent to."""
        return f"{urlsplit(self.base_url).path}/tasks/{task_id}"

    def signature(self, path: str, body: bytes, *, age_s: float = 0) -> str:
        """The signature of a dispatch that was made so many seconds ago."""
        return signatures.sign(self._secret, int(time.time() - age_s), path, body)

    def post(self, task_id: str, body: bytes, headers: Mapping[str, str]) -> WorkerReply:
        """Send a body to a task, as it is."""
        return self._send("POST", f"{self.base_url}/tasks/{task_id}", body, headers)

    def signed(self, task_id: str, body: bytes, **headers: str) -> WorkerReply:
        """Send a body to a task with its signature."""
        signature = self.signature(self.path_of(task_id), body)
        return self.post(task_id, body, {signatures.HEADER: signature, **headers})

    def health(self) -> WorkerReply:
        """Ask GET /health."""
        return self._send("GET", f"{self.base_url}/health", None, {})

    def broken_off(self, task_id: str, body: bytes) -> str:
        """Announce a body, send half of it and hang up; return what went wrong, empty if nothing did."""
        parts = urlsplit(self.base_url)
        head = (
            f"POST {self.path_of(task_id)} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"{signatures.HEADER}: {self.signature(self.path_of(task_id), body)}\r\n\r\n"
        )
        where = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        try:
            with socket.create_connection(where, ANSWER_S) as connection:
                connection.sendall(head.encode() + body[: len(body) // 2])
        except OSError as error:
            return str(error)
        return ""

    def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> WorkerReply:
        started = time.monotonic()
        try:
            answer = self._pool.request(
                method,
                url,
                body=body,
                headers={"Content-Type": "application/json", "X-PipeWeave-Tenant": "check", **headers},
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            return WorkerReply(None, {}, time.monotonic() - started, _reason(error))
        answer_headers = {name.lower(): value for name, value in answer.headers.items()}
        return WorkerReply(answer.status, answer_headers, time.monotonic() - started)


def encoded(document: object) -> bytes:
    """A dispatch as it is sent."""
    return orjson.dumps(document)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"no answer within {_PATIENCE_S} s"
    if isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return "it could not be connected to"
    return "the connection was closed without an answer"
