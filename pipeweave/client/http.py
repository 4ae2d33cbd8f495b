"""Send HTTP requests for the client, parse JSON answers, and raise problem documents as errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
import urllib3

from pipeweave import errors
from pipeweave.client.multipart import PIECE_BYTES, FileForm
from pipeweave.errors import FieldError, InvalidInput, PipeWeaveError, Unavailable
from pipeweave.json_conversion import LEFT_TO_CONVERSION, to_json_value
from pipeweave.json_values import write_json

# Only GETs are repeated: a second POST, PUT or DELETE could act twice.
GET_TRIES = 3
FIRST_PAUSE_S = 0.1
POOLED_CONNECTIONS = 16

_NEAREST: dict[int, type[PipeWeaveError]] = {
    400: errors.InvalidInput,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    409: errors.Conflict,
    413: errors.PayloadTooLarge,
    415: errors.UnsupportedMediaType,
    422: errors.InvalidInput,
    429: errors.TooManyRequests,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}
_OF_THE_PROBLEM = frozenset({"type", "title", "status", "code", "detail", "error", "errors", "hint"})


class Transport:
    """Sends requests to one orchestrator for one tenant. Safe to share between threads.

    Args:
        url: the API's URL, e.g. `http://127.0.0.1:3000`; a path prefix is kept.
        token: bearer token; None to send no token.
        tenant: sent as `X-Tenant` with every request; None to act for the token's only tenant.
        timeout: seconds to wait for a connection, and again for each part of the answer.

    Raises:
        InvalidInput: the URL is not an http or https URL.
    """

    def __init__(self, url: str, token: str | None, tenant: str | None, timeout: float) -> None:
        self.url = _checked(url)
        self.tenant = tenant or None
        self._headers = {"Accept": "application/json", "User-Agent": "pipeweave"}
        if tenant:
            self._headers["X-Tenant"] = tenant
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._pool = urllib3.PoolManager(
            maxsize=POOLED_CONNECTIONS, retries=False, timeout=urllib3.Timeout(connect=timeout, read=timeout)
        )

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """GET a path and return its JSON; tries up to GET_TRIES times if the API cannot be reached.

        Raises:
            PipeWeaveError: the API refused the request; the class is that of the problem document's code.
            Unavailable: the API cannot be reached, or did not answer in time.
        """
        parameters = {name: _parameter(value) for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path
        for pause in _pauses():
            try:
                return self._send("GET", target, None)
            except Unavailable as error:
                if pause is None or error.context.get("timed_out"):
                    raise
                time.sleep(pause)
        raise AssertionError("the last pause is None")

    def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a body as JSON, once, and return the answer's JSON (None if the answer has no body).

        Args:
            headers: beside those of every request.

        Raises:
            InvalidInput: the body cannot be written as JSON.
            PipeWeaveError, Unavailable: as `get`.
        """
        return self._send(method, path, _encoded(body), headers)

    def send_form(self, path: str, form: FileForm) -> Any:
        """Send a form with a file, once, and return the answer's JSON.

        Raises:
            PipeWeaveError, Unavailable: as `get`.
        """
        answer = self._request("POST", path, form, form.headers)
        if 200 <= answer.status < 300:
            return self._json(answer)
        raise self._problem(answer)

    def download(self, path: str, query: Mapping[str, Any], to: Path) -> int:
        """Write the answer to a GET into a file, piece by piece; its size in bytes.

        The file appears, or is replaced, when all of it has arrived.

        Raises:
            PipeWeaveError, Unavailable: as `get`.
            OSError: the file cannot be written.
        """
        parameters = {name: _text(value) for name, value in query.items() if value is not None}
        answer = self._request("GET", f"{path}?{urlencode(parameters)}", None, {}, preload_content=False)
        try:
            if answer.status != 200:
                raise self._problem(answer)
            return _write(answer, to)
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            answer.release_conn()

    def stream(self, path: str, query: Mapping[str, Any], silence: float) -> Any:
        """GET a path whose answer goes on for long; the caller reads and closes it, a urllib3 response.

        Args:
            silence: seconds without anything after which reading it fails.

        Raises:
            PipeWeaveError, Unavailable: as `get`; once, without trying again.
        """
        parameters = {name: _text(value) for name, value in query.items() if value is not None}
        answer = self._request(
            "GET",
            f"{path}?{urlencode(parameters)}",
            None,
            {"Accept": "text/event-stream"},
            preload_content=False,
            timeout=urllib3.Timeout(connect=self._timeout, read=silence),
        )
        if answer.status == 200 and answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            return answer
        try:
            content = answer.data
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            answer.release_conn()
        if answer.status == 200:
            raise PipeWeaveError(f"{self.url}{path} is no stream: {len(content)} bytes of another kind")
        raise self._problem(answer)

    def lines(self, path: str, query: Mapping[str, Any]) -> Iterator[bytes]:
        """The lines of the answer to a GET, as they come. A line that did not come to its end is left out.

        Raises:
            PipeWeaveError, Unavailable: as `get`; also in the middle of the answer.
        """
        parameters = {name: _parameter(value) for name, value in query.items() if value is not None}
        headers = {"Accept": "application/x-ndjson", "Accept-Encoding": "gzip"}
        target = f"{path}?{urlencode(parameters, doseq=True)}"
        answer = self._request("GET", target, None, headers, preload_content=False)
        try:
            if answer.status != 200:
                raise self._problem(answer)
            rest = b""
            for piece in answer.stream(PIECE_BYTES, decode_content=True):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            # A caller may have stopped in the middle: then nobody else can use the connection.
            answer.close()

    def close(self) -> None:
        """Close the pooled connections."""
        self._pool.clear()

    def _send(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str] | None = None
    ) -> Any:
        kind = {} if data is None else {"Content-Type": "application/json"}
        answer = self._request(method, path, data, {**kind, **(headers or {})})
        if 200 <= answer.status < 300:
            return self._json(answer) if answer.data else None
        raise self._problem(answer)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | FileForm | None,
        headers: Mapping[str, str],
        *,
        preload_content: bool = True,
        timeout: urllib3.Timeout | None = None,
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                method,
                self.url + path,
                body=body,
                headers={**self._headers, **headers},
                redirect=False,
                preload_content=preload_content,
                timeout=timeout or self._pool.connection_pool_kw["timeout"],
            )
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unavailable:
        if isinstance(error, urllib3.exceptions.ReadTimeoutError):
            return Unavailable(f"the orchestrator at {self.url} did not answer in time", timed_out=True)
        if "WRONG_VERSION_NUMBER" in str(error):
            return Unavailable(
                f"the orchestrator at {self.url} does not answer in TLS",
                hint=f"write {self.url.replace('https:', 'http:', 1)} if it answers plain HTTP",
            )
        return Unavailable(
            f"the orchestrator at {self.url} cannot be reached ({_reason(error)})",
            hint="is it running? `pipeweave up` starts one on this machine",
        )

    def _json(self, answer: urllib3.BaseHTTPResponse) -> Any:
        try:
            return orjson.loads(answer.data)
        except orjson.JSONDecodeError as error:
            raise PipeWeaveError(
                f"the answer of {self.url} is not JSON", hint="is this the URL of PipeWeave's API?"
            ) from error

    def _problem(self, answer: urllib3.BaseHTTPResponse) -> PipeWeaveError:
        try:
            document = orjson.loads(answer.data)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict) or "code" not in document:
            kind = _NEAREST.get(answer.status, PipeWeaveError)
            return kind(f"{self.url} answered with status {answer.status}")
        return from_problem(document, answer.status)


def _write(answer: urllib3.BaseHTTPResponse, to: Path) -> int:
    part = to.with_name(f".{to.name}.part")
    try:
        with part.open("wb") as file:
            for piece in answer.stream(PIECE_BYTES):
                file.write(piece)
            size = file.tell()
        part.replace(to)
        return size
    finally:
        part.unlink(missing_ok=True)


def _encoded(body: Any) -> bytes:
    """Write a body as JSON; models, dates and the like are converted as in the results of tasks."""
    try:
        return write_json(body, LEFT_TO_CONVERSION)
    except TypeError:
        converted, faults = to_json_value(body)
    if faults:
        first = faults[0]
        raise InvalidInput(f"the request is not JSON: {first.field} {first.message}", errors=faults)
    return write_json(converted)


def from_problem(document: Mapping[str, Any], status: int) -> PipeWeaveError:
    """Make the error of a problem document: the class with its `code`, else a class for its HTTP status."""
    code = str(document["code"])
    kind = _by_code().get(code)
    context = {name: value for name, value in document.items() if name not in _OF_THE_PROBLEM}
    if kind is None:
        kind, context = _NEAREST.get(status, PipeWeaveError), {**context, "sent_code": code}
    return kind(
        str(document.get("detail") or document.get("title") or f"status {status}"),
        errors=tuple(_field_errors(document.get("errors"))),
        hint=document.get("hint"),
        **context,
    )


def _field_errors(listed: Any) -> Iterator[FieldError]:
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            yield FieldError(
                str(each.get("field", "")),
                str(each.get("message", "")),
                str(each.get("code", "invalid")),
                each.get("expected"),
            )


@cache
def _by_code() -> dict[str, type[PipeWeaveError]]:
    classes: dict[str, type[PipeWeaveError]] = {}
    waiting: list[type[PipeWeaveError]] = [PipeWeaveError]
    while waiting:
        kind = waiting.pop()
        # TaskError is left out: the API never sends it as a problem, and its constructor takes other
        # arguments.
        if not issubclass(kind, errors.TaskError):
            classes.setdefault(kind.code, kind)
            waiting.extend(kind.__subclasses__())
    return classes


def _pauses() -> list[float | None]:
    return [*(FIRST_PAUSE_S * 2**turn for turn in range(GET_TRIES - 1)), None]


def _reason(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "the connection was closed without an answer"
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "connection refused" if "refused" in str(error) else str(error).rpartition(": ")[2]
    return type(error).__name__ if not str(error) else str(error).rpartition(": ")[2]


def _parameter(value: Any) -> str | list[str]:
    """A query parameter; one with several values is sent several times."""
    return [_text(each) for each in value] if isinstance(value, list | tuple) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise InvalidInput("the orchestrator's URL must not hold a password", hint="pass a token instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            f"{url[:200]!r} is not the URL of an orchestrator",
            errors=[FieldError("url", "must begin with http:// or https://", "invalid")],
            hint="write it as http://127.0.0.1:3000",
        )
    return url.rstrip("/")
