"""Adds headers to every answer: the request id, CORS, and instructions for browsers and caches."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from flask import Flask, Response, request

from pipeweave.api.http.application import current_request
from pipeweave.chance import piece

REQUEST_ID = "X-Request-Id"
TRACEPARENT = "traceparent"
_KEPT = "pipeweave.request_id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._~:@-]{1,128}\Z")

ALLOWED_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, X-Reason, X-Request-Id, X-Tenant, traceparent"
)
_DEFAULTS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
# Seconds for which a browser may cache the answer to a preflight request.
PREFLIGHT_MAX_AGE_S = 600


def register(app: Flask, cors_origins: tuple[str, ...]) -> None:
    """Make the app add these headers to every answer, errors included.

    Args:
        app: the app.
        cors_origins: browser origins that may read answers; `*` allows any, empty allows none.
    """

    def finish(response: Response) -> Response:
        headers = response.headers
        headers[REQUEST_ID] = request_id()
        names = {name.lower() for name, _ in headers}
        for name, value in _DEFAULTS:
            if name.lower() not in names:
                headers.add(name, value)
        if cors_origins:
            _allow_origin(response, cors_origins)
        return response

    app.after_request(finish)


def request_id() -> str:
    """The caller's X-Request-Id if it is well-formed, else a new id."""
    return id_of(current_request().environ)


def id_of(environ: MutableMapping[str, Any]) -> str:
    """The same, of the request with this environ (PEP 3333)."""
    known = environ.get(_KEPT)
    if known is None:
        header = environ.get("HTTP_X_REQUEST_ID", "")
        known = environ[_KEPT] = header if _REQUEST_ID.match(header) else f"req_{piece()[:8].hex()}"
    return str(known)


def _allow_origin(response: Response, cors_origins: tuple[str, ...]) -> None:
    response.vary.add("Origin")
    origin = request.headers.get("Origin", "")
    if not origin or (origin not in cors_origins and "*" not in cors_origins):
        return
    # `*` is safe: tokens are sent in the Authorization header and never in cookies, and credentials are not
    # allowed.
    response.headers["Access-Control-Allow-Origin"] = "*" if "*" in cors_origins else origin
    response.headers["Access-Control-Expose-Headers"] = REQUEST_ID
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        response.headers["Access-Control-Allow-Methods"] = response.headers.get("Allow", "")
        response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
        response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_MAX_AGE_S)
