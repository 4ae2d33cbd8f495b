"""Refuses addresses that can be read in two ways, so that rules of a proxy for paths hold here, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Flask

from pipeweave.api.http.application import current_request
from pipeweave.errors import InvalidInput, NotFound

# Letters, digits, dots and slashes in percent-encoding: a proxy may take them for other characters.
_ENCODED = re.compile(r"%(2[ef]|3[0-9]|[46][1-9a-f]|[57][0-9a])", re.IGNORECASE)

# What opens something stands in a path: the token of a worker, and that of a callback.
_TOKEN = re.compile(r"^(/w/[^/]*/|(?:/w/[^/]*/[^/]*)?/api/callbacks/)[^/]+")


def without_token(path: str) -> str:
    """The path with `***` in place of a token, for a log."""
    return _TOKEN.sub(r"\1***", path)


def register(app: Flask) -> None:
    """Make the app check the address of every request."""
    app.before_request(_check)


def has_other_spelling(environ: Mapping[str, Any]) -> bool:
    """Whether a path has two slashes in a row, or encodes what need not be encoded."""
    return "//" in environ.get("PATH_INFO", "") or _ENCODED.search(_path(environ)) is not None


def _path(environ: Mapping[str, Any]) -> str:
    return str(environ.get("RAW_URI", "")).partition("?")[0]


def _check() -> None:
    """Check the address of the current request.

    Raises:
        NotFound: its path has two slashes in a row, or encodes what need not be encoded.
        InvalidInput: it is HTTP/1.1 and has no Host.
    """
    environ = current_request().environ
    if has_other_spelling(environ):
        path = _path(environ)
        raise NotFound(
            f"path {path[:200]!r} not found",
            hint="a path has one spelling: single slashes; letters, digits, dots and slashes are not encoded",
        )
    if environ.get("SERVER_PROTOCOL") == "HTTP/1.1" and not environ.get("HTTP_HOST"):
        raise InvalidInput("the request has no Host header", hint="HTTP/1.1 requires a Host header")
