"""Turns every error into a problem document (RFC 9457).

Errors from pipeweave/errors.py keep their code and status. HTTP errors of Flask and werkzeug are translated
by status. Any other exception is logged with an incident number, and the answer holds only that number.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WrongMethod

from pipeweave.api.http import addresses
from pipeweave.errors import (
    Busy,
    InternalError,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    PipeWeaveError,
    RangeNotSatisfiable,
    SchemaOutdated,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
# Seconds after which a client may try again while PostgreSQL, the broker or storage cannot be reached.
RETRY_AFTER_S = 1


def problem(error: PipeWeaveError) -> Response:
    """The HTTP answer for an error."""
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="pipeweave"'
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.context['size']}"
    content = orjson.dumps(error.to_problem(), default=str)
    return Response(content, error.status, headers, content_type=PROBLEM_TYPE)


def register(app: Flask) -> None:
    """Make the app answer every error with a problem document."""
    app.register_error_handler(PipeWeaveError, _known)
    app.register_error_handler(HTTPException, _of_http)
    app.register_error_handler(Exception, _unexpected)


def answer(error: Exception) -> Response:
    """The answer to a request that ended with this error."""
    if isinstance(error, PipeWeaveError):
        return _known(error)
    if isinstance(error, HTTPException):
        return _of_http(error)
    return _unexpected(error)


def _known(error: PipeWeaveError) -> Response:
    if isinstance(error, Busy):
        log.warning(
            "api.busy", extra={"method": request.method, "path": addresses.without_token(request.path)}
        )
        return problem(error)
    if isinstance(error, SchemaOutdated):
        log.error("api.schema_outdated", extra={"reason": error.detail})
        return problem(error)
    if isinstance(error, Unavailable) and error.__cause__ is not None:
        # The reason names hosts and ports. It goes into the log only, because the caller may have no token.
        log.error("api.unavailable", extra={"reason": error.detail})
        return problem(Unavailable(hint="try again; the log of the API has the reason"))
    if error.status < 500 or isinstance(error, Unavailable):
        return problem(error)
    return _unexpected(error)


def _of_http(error: HTTPException) -> Response:
    """Answer an HTTP error of Flask or werkzeug."""
    if error.code is not None and error.code < 400:
        return Response(error.get_body(), error.code, error.get_headers())
    answer = problem(_translated(error))
    if isinstance(error, WrongMethod) and error.valid_methods:
        answer.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return answer


def _translated(error: HTTPException) -> PipeWeaveError:
    match error.code:
        case 404:
            return NotFound(
                f"path {request.path[:200]!r} not found", hint="GET /api/openapi.json lists every path"
            )
        case 405:
            return MethodNotAllowed(f"path {request.path[:200]!r} does not allow {request.method[:20]}")
        case 413:
            limit = request.max_content_length or 0
            return PayloadTooLarge(f"a body may have at most {limit} bytes", limit=limit)
        case 415:
            return UnsupportedMediaType()
        case 500 | None:
            return InternalError()
    return _with_status(error.code)(error.description)


def _with_status(status: int) -> type[PipeWeaveError]:
    return type("Refused", (InvalidInput,), {"__doc__": InvalidInput.__doc__, "status": status})


def _unexpected(error: Exception) -> Response:
    """Log an unexpected error with an incident number, and answer with the number only."""
    incident = f"inc_{secrets.token_hex(8)}"
    context: dict[str, Any] = {
        "incident": incident,
        "method": request.method,
        "path": addresses.without_token(request.path),
    }
    log.error("api.failed", extra=context, exc_info=error)
    return problem(InternalError(f"the log has the details under {incident}", incident=incident))
