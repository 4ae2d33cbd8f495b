"""Send an HTTP worker's requests to its orchestrator, and read and write objects by URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import orjson
import urllib3

from pipeweave.errors import (
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    ObjectTooLarge,
    PipeWeaveError,
    Unavailable,
)

# Seconds to wait for a connection, and for each part of an answer.
TIMEOUT_S = 10.0
# The same for the content of an object, which a store may send slowly.
OBJECT_TIMEOUT_S = 60.0
_PIECE = 64 * 1024

_CREDENTIALS = re.compile(r"/w/[^/]+/[^/]+")


@dataclass(frozen=True, slots=True)
class OrchestratorAnswer:
    """An answer of the orchestrator, of any status.

    Args:
        body: its JSON; None if it has none.
        retry_after_s: what its Retry-After header says.
    """

    status: int
    body: Any = None
    retry_after_s: float | None = None

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status in (408, 425, 429)

    @property
    def code(self) -> str | None:
        """The stable code of a problem; None if the answer is none."""
        code = self.body.get("code") if isinstance(self.body, dict) else None
        return code if isinstance(code, str) else None

    @property
    def reason(self) -> str:
        """What the orchestrator says, for a log line."""
        problem = self.body if isinstance(self.body, dict) else {}
        said = problem.get("detail") or problem.get("error") or "it gave no reason"
        return f"{problem.get('code') or self.status}: {said}"[:500]

    @property
    def hint(self) -> str | None:
        hint = self.body.get("hint") if isinstance(self.body, dict) else None
        return hint if isinstance(hint, str) else None


class OrchestratorLink:
    """The connection to one orchestrator. Safe to share between threads.

    Args:
        url: the orchestrator's URL; a path such as `/w/<tenant>/<token>` is kept.
        token: bearer token; None to send none.
        tenant: sent as `X-Tenant`; None to send none.

    Raises:
        InvalidInput: the URL is not an http or https URL.
    """

    def __init__(self, url: str, token: str | None, tenant: str | None) -> None:
        self.url = _checked(url)
        self._headers = {"Accept": "application/json", "User-Agent": "pipeweave-http-worker"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        if tenant:
            self._headers["X-Tenant"] = tenant
        self._pool = urllib3.PoolManager(maxsize=32, retries=False, timeout=TIMEOUT_S)

    @property
    def shown_url(self) -> str:
        """The URL without what opens it: its path may hold a token."""
        return _CREDENTIALS.sub("/w/…", self.url)

    def open_url(self, path: str) -> str:
        """The URL of a path for somebody who has no token: without the one of this worker."""
        return f"{_CREDENTIALS.sub('', self.url)}{path}" if path.startswith("/") else path

    def send(
        self, method: str, path: str, body: Any = None, timeout_s: float = TIMEOUT_S
    ) -> OrchestratorAnswer:
        """Send a request once.

        Args:
            body: JSON; None to send none.

        Raises:
            Unavailable: no answer came.
        """
        data = None if body is None else orjson.dumps(body)
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        try:
            answer = self._pool.request(
                method, self.url + path, body=data, headers=headers, redirect=False, timeout=timeout_s
            )
        except urllib3.exceptions.HTTPError as error:
            said = f"the orchestrator at {self.shown_url} cannot be reached ({_said(error)})"
            raise Unavailable(said) from None
        return OrchestratorAnswer(
            answer.status, _json(answer.data), _seconds(answer.headers.get("Retry-After"))
        )

    def get(self, path: str) -> Any:
        """GET the JSON at a path below the orchestrator's URL.

        Raises:
            Unavailable: no answer came, or none but another try may succeed.
            PipeWeaveError: the orchestrator refused the request.
        """
        return _good(self.send("GET", path))

    def post(self, path: str, body: Any) -> Any:
        """POST JSON and return the JSON of the answer; it raises what `get` raises."""
        return _good(self.send("POST", path, body))

    @contextmanager
    def read(self, url: str) -> Iterator[Iterable[bytes]]:
        """Read an object by its URL, piece by piece. A URL that begins with `/` is below the orchestrator's.

        Raises:
            NotFound: there is no such object.
            Forbidden: the URL is refused, most likely because it has expired.
            Unavailable, PipeWeaveError: the storage cannot be reached, or answers something else.
        """
        try:
            answer = self._pool.request(
                "GET", self._full(url), redirect=False, preload_content=False, timeout=OBJECT_TIMEOUT_S
            )
            try:
                _check_object(answer.status)
                yield answer.stream(_PIECE)
            finally:
                # Not released: what is left of the body would be taken for the next answer.
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"the storage cannot be reached ({_said(error)})") from None

    def load(self, url: str, limit: int) -> bytes:
        """Read an object of at most `limit` bytes; it raises what `read` raises.

        Raises:
            ObjectTooLarge: it is larger.
        """
        pieces, size = [], 0
        with self.read(url) as stream:
            for each in stream:
                size += len(each)
                if size > limit:
                    raise ObjectTooLarge(f"the object has more than {limit} bytes")
                pieces.append(each)
        return b"".join(pieces)

    def write(self, url: str, content: bytes | BinaryIO, size: int, content_type: str) -> None:
        """Write an object by its URL; it raises what `read` raises."""
        headers = {"Content-Type": content_type, "Content-Length": str(size)}
        try:
            answer = self._pool.request(
                "PUT",
                self._full(url),
                body=content,
                headers=headers,
                redirect=False,
                timeout=OBJECT_TIMEOUT_S,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"the storage cannot be reached ({_said(error)})") from None
        _check_object(answer.status)

    def close(self) -> None:
        """Close the pooled connections."""
        self._pool.clear()

    def _full(self, url: str) -> str:
        return self.url + url if url.startswith("/") else url


def _good(answer: OrchestratorAnswer) -> Any:
    if answer.is_good:
        return answer.body
    if answer.is_passing:
        raise Unavailable(f"the orchestrator did not answer as expected ({answer.reason})")
    raise PipeWeaveError(f"the orchestrator refused the request ({answer.reason})", hint=answer.hint)


def _check_object(status: int) -> None:
    if 200 <= status < 300:
        return
    if status == 404:
        raise NotFound("there is no such stored object")
    if status >= 500 or status == 429:
        raise Unavailable(f"the storage answered with status {status}")
    if status in (400, 401, 403, 410):
        raise Forbidden(f"the storage refused the URL with status {status}: it may have expired")
    raise PipeWeaveError(f"the storage answered with status {status}")


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data) if data else None
    except orjson.JSONDecodeError:
        return None


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after and retry_after.isdecimal() else None


def _said(error: Exception) -> str:
    # The text of an error quotes the URL, which may hold a token or a signature.
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "it did not answer in time"
    return "connection refused" if "refused" in str(error) else type(error).__name__


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise InvalidInput(
            "the orchestrator's URL cannot be used",
            errors=[FieldError("orchestrator_url", "must be http://host:port, a path may follow", "invalid")],
            hint="write it as http://127.0.0.1:3000 or http://127.0.0.1:3000/w/<tenant>/<token>",
        )
    return url.rstrip("/")
