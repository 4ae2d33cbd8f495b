"""Serves requests that come as messages of a WebSocket: each one becomes a request of this application.

Authentication, the tenant, rates, checks, the audit and problem documents are those of every request. It has
the headers of the request that opened the WebSocket; a message may add a few.
docs/decisions/0104-requests-over-web-sockets.md says why.
"""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import Flask
from werkzeug.wrappers import Response

from pipeweave.api.contract.streams import SocketRequest
from pipeweave.api.http import addresses, idempotency_header, proxies
from pipeweave.api.http.audited import REASON
from pipeweave.api.http.body import parse_body
from pipeweave.api.http.endpoint import Endpoint
from pipeweave.api.http.errors import problem
from pipeweave.api.http.headers import REQUEST_ID, TRACEPARENT
from pipeweave.errors import FieldError, InternalError, InvalidInput, LimitExceeded, PipeWeaveError
from pipeweave.suggestions import did_you_mean

log = logging.getLogger(__name__)

# Bytes of an answer to a reading request. Other answers are small.
MAX_ANSWER = 1_000_000
# The headers that a message may have, and those of an answer that it gets.
ALLOWED = (idempotency_header.HEADER, REASON, REQUEST_ID, TRACEPARENT, "X-Tenant")
SHOWN = (REQUEST_ID, "Retry-After")
# What each request has of the one that opened the WebSocket.
_KEPT = (
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "wsgi.url_scheme",
    proxies.CERTIFICATE,
    "HTTP_HOST",
    "HTTP_AUTHORIZATION",
    "HTTP_COOKIE",
    "HTTP_ORIGIN",
    "HTTP_SEC_FETCH_SITE",
    "HTTP_X_TENANT",
)


class SocketRequests:
    """The operations of one application.

    Args:
        app: serves them.
        endpoints: its route table.
    """

    def __init__(self, app: Flask, endpoints: Sequence[Endpoint]) -> None:
        self._app = app
        self._operations = {each.operation_id: each for each in endpoints}

    def of(self, opened: Mapping[str, Any]) -> Callable[[bytes], bytes]:
        """The function that answers the messages of a WebSocket; it raises nothing.

        Args:
            opened: the environ of the request that opened it.
        """
        kept = {name: opened[name] for name in _KEPT if name in opened}
        return lambda message: self._answered(kept, message)

    def _answered(self, kept: Mapping[str, Any], message: bytes) -> bytes:
        try:
            asked = parse_body(message, SocketRequest)
            return self._served(kept, asked)
        except PipeWeaveError as error:
            return refusal(message, error)
        except Exception:
            log.exception("socket.failed")
            return refusal(message, InternalError())

    def _served(self, kept: Mapping[str, Any], asked: SocketRequest) -> bytes:
        endpoint = self._endpoint(asked.operation)
        environ = {**kept, **_environ(endpoint, asked)}
        began = time.monotonic()
        # Not through `app.wsgi_app`: what stands before the application has seen the address of the client.
        answer = Response.from_app(lambda *each: Flask.wsgi_app(self._app, *each), environ, buffered=True)
        size = len(answer.get_data())
        log.info("socket.answered", extra=_line(endpoint, environ, answer, time.monotonic() - began))
        if endpoint.method == "GET" and size > MAX_ANSWER:
            raise LimitExceeded(
                f"the answer has {size:,} bytes, and a message at most {MAX_ANSWER:,}",
                hint=f"ask for less, or by {endpoint.method} {endpoint.path}",
            )
        return _message(asked.id, answer)

    def _endpoint(self, operation: str) -> Endpoint:
        endpoint = self._operations.get(operation)
        if endpoint is None:
            near = did_you_mean(operation, list(self._operations))
            raise _wrong("operation", f"{operation[:80]!r} is unknown", "unknown", near)
        if not endpoint.speaks_json:
            hint = f"use {endpoint.method} {endpoint.path}"
            raise _wrong("operation", f"{operation!r} has a body or an answer beside JSON", "invalid", hint)
        return endpoint


def refusal(message: bytes, error: PipeWeaveError) -> bytes:
    """The answer to a message that is not served."""
    return _message(_id_of(message), problem(error))


def _message(id: int | str | None, answer: Response) -> bytes:
    headers = {name: answer.headers[name] for name in SHOWN if name in answer.headers}
    head = orjson.dumps({"event": "answer", "id": id, "status": answer.status_code, "headers": headers})
    return b'%s,"body":%s}' % (head[:-1], answer.get_data() or b"null")


def _id_of(message: bytes) -> int | str | None:
    """The id in a message that may be wrong in every way."""
    try:
        document = orjson.loads(message)
        return SocketRequest.model_validate({"id": document.get("id"), "operation": "any"}).id
    except (ValueError, AttributeError):
        return None


def _environ(endpoint: Endpoint, asked: SocketRequest) -> dict[str, Any]:
    """The part of a WSGI request that a message says."""
    content = orjson.dumps(asked.body) if asked.has_body else b""
    if asked.has_body and endpoint.body is None:
        raise _wrong("body", "is not for this operation", "unknown_field", "nothing")
    path = _path(endpoint, asked.params)
    query = {name: value for name, value in asked.params.items() if name not in endpoint.ids}
    return {
        "REQUEST_METHOD": endpoint.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": urlencode(list(_pairs(query))),
        "CONTENT_TYPE": "application/json" if content else "",
        "CONTENT_LENGTH": str(len(content)),
        **_headers(asked.headers),
        "wsgi.version": (1, 0),
        "wsgi.input": io.BytesIO(content),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }


def _path(endpoint: Endpoint, params: Mapping[str, Any]) -> str:
    path = endpoint.path
    for name in endpoint.ids:
        text = params.get(name)
        if text is None or isinstance(text, list) or not str(text) or "/" in str(text):
            raise _wrong(f"params.{name}", "must be an id", "invalid", "a text without slashes")
        path = path.replace(f"{{{name}}}", str(text))
    return path


def _pairs(query: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in query.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, str(each).lower() if isinstance(each, bool) else str(each)


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    known = {each.lower(): each for each in ALLOWED}
    for name in headers:
        if name.lower() not in known:
            expected = ", ".join(ALLOWED)
            raise _wrong(f"headers.{name[:80]}", "is not for messages", "unknown_field", expected)
    return {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}


def _wrong(field: str, message: str, code: str, expected: str | None) -> InvalidInput:
    errors = [FieldError(field, message, code, expected)]
    return InvalidInput(f"{field} {message}", errors=errors, hint="docs/streams.md has the form of a message")


def _line(endpoint: Endpoint, environ: Mapping[str, Any], answer: Response, took_s: float) -> dict[str, Any]:
    """What the log says of a request, as the access log does of others."""
    return {
        "peer": environ.get("REMOTE_ADDR"),
        "method": endpoint.method,
        "path": addresses.without_token(environ["PATH_INFO"]),
        "status": answer.status_code,
        "duration_ms": round(took_s * 1_000),
        "request_id": answer.headers.get(REQUEST_ID),
    }
