"""Answers of the server itself: to what is no HTTP, to clients that are too slow, and to too many."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from gunicorn.http.errors import (
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)

from pipeweave.api.http.errors import PROBLEM_TYPE
from pipeweave.api.server.one_reading import Misdirected
from pipeweave.errors import InternalError, InvalidInput, PipeWeaveError, RequestTimeout, TooManyRequests

# Seconds after which a refused client may ask again.
RETRY_AFTER_S = 5


def unreadable(error: Exception) -> bytes:
    """The complete HTTP answer to a request that could not be read, or is not served."""
    status, problem = _refusal(error)
    content = orjson.dumps({**problem.to_problem(), "status": status.value})
    later = f"Retry-After: {RETRY_AFTER_S}\r\n" if isinstance(error, TooManyRequests) else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n{later}"
        f"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content


def _refusal(error: Exception) -> tuple[HTTPStatus, PipeWeaveError]:
    match error:
        case LimitRequestLine():
            return HTTPStatus.REQUEST_URI_TOO_LONG, InvalidInput("the path and its query are too long")
        case LimitRequestHeaders():
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, InvalidInput("the headers are too large")
        case UnsupportedTransferCoding():
            return HTTPStatus.NOT_IMPLEMENTED, InvalidInput(
                "the body has a transfer coding beside chunked", hint="send it as it is, or in chunks"
            )
        case Misdirected():
            return HTTPStatus.MISDIRECTED_REQUEST, InvalidInput(
                "the target of the request is of another host than its header Host",
                hint="send the path alone: GET /api/info",
            )
        case ParseException():
            return HTTPStatus.BAD_REQUEST, InvalidInput("the request is not valid HTTP")
        case RequestTimeout():
            return HTTPStatus.REQUEST_TIMEOUT, error
        case TooManyRequests():
            return HTTPStatus.TOO_MANY_REQUESTS, error
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR, InternalError()
