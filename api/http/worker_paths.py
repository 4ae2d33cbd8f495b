"""Serves `/w/{tenant}/{token}/api/…`: paths of workers and schedulers that can send no headers.

Tenant and token of the path take the place of the headers X-Tenant and Authorization. Only what workers and
schedulers call is reached this way: a token in a path may be seen in more places than one in a header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from flask import Flask, Request

from pipeweave.api.http import addresses
from pipeweave.api.http.endpoint import Endpoint
from pipeweave.errors import NotFound
from pipeweave.orchestrator.security import TICK, WORKER

PREFIX = "/w/"
_MARK = "pipeweave.worker_path"
_REACHED = {WORKER, TICK}


def register(app: Flask) -> None:
    """Make the app serve these paths."""
    app.wsgi_app = _Rewriting(app.wsgi_app)  # type: ignore[method-assign, assignment]


class _Rewriting:
    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: MutableMapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        tenant, _, rest = path.removeprefix(PREFIX).partition("/")
        token, _, below = rest.partition("/")
        if path.startswith(PREFIX) and tenant and token:
            # Only the API is reached this way: a page would be shown with the rights of the token. What is
            # shown instead of the path has one spelling, so the path itself is looked at here.
            is_api = below.startswith("api/") and not addresses.has_other_spelling(environ)
            # The token must not come back in an answer or in a log line.
            shown = f"/{below}" if is_api else f"{PREFIX}{tenant}/***/{below}"
            environ["PATH_INFO"] = environ["RAW_URI"] = environ["REQUEST_URI"] = shown
            if is_api:
                environ["HTTP_X_TENANT"] = tenant
                environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"
                environ[_MARK] = True
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


def check(endpoint: Endpoint, request: Request) -> None:
    """Check that a request may reach an endpoint by the path that it came by.

    Raises:
        NotFound: it is not one of workers or schedulers.
    """
    if request.environ.get(_MARK) and endpoint.scopes and not _REACHED.intersection(endpoint.scopes):
        raise NotFound(
            f"path {request.path[:200]!r} is not served below {PREFIX}",
            hint="send the token in the header Authorization, and the tenant in X-Tenant",
        )
