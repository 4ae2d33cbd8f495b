"""The door: HTTP in, verbs of the orchestrator inside, JSON out."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from flask import Flask
from werkzeug.routing import BaseConverter, Map

from pipeweave.api.http import docs_page, errors, headers, openapi
from pipeweave.api.http.auth import Gate
from pipeweave.api.http.endpoint import Endpoint
from pipeweave.api.http.request_pipeline import Door
from pipeweave.api.routes import ENDPOINTS
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.settings import Settings
from pipeweave.size_limits import MAX_BODY_BYTES


def create_app(settings: Settings, deployment: Deployment | None = None) -> Flask:
    """The WSGI application.

    Args:
        settings: where PostgreSQL and the broker are, CORS origins.
        deployment: an open one to use instead of opening one from the settings.
    """
    deployment = deployment or Deployment.open(settings)
    app = Flask("pipeweave.api", template_folder="templates", static_folder="static")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    # `/api/runs/` and `//` are not other names of a path: they are not there.
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.extensions["pipeweave"] = deployment
    app.extensions["pipeweave.openapi"] = functools.cache(lambda: openapi.build(ENDPOINTS))
    app.url_map.converters["other_than"] = OtherThan
    errors.register(app)
    headers.register(app, settings.cors_origins)
    _add_endpoints(app, Door(deployment, Gate(deployment.database)), ENDPOINTS)
    docs_page.register(app)
    return app


class OtherThan(BaseConverter):
    """An id in a path that is none of these words: they are paths of their own, with methods of their own."""

    def __init__(self, map: Map, *words: str) -> None:
        super().__init__(map)
        self.regex = rf"(?!(?:{'|'.join(re.escape(each) for each in words)})\Z)[^/]+"


def _add_endpoints(app: Flask, door: Door, endpoints: Sequence[Endpoint]) -> None:
    def view(endpoint: Endpoint, **path_ids: str) -> Any:
        return door.serve(endpoint, path_ids)

    for endpoint in endpoints:
        app.add_url_rule(
            _rule(endpoint, endpoints),
            endpoint.operation_id,
            functools.partial(view, endpoint),
            methods=[endpoint.method],
        )


def _rule(endpoint: Endpoint, endpoints: Sequence[Endpoint]) -> str:
    """The path as werkzeug writes it: `/api/dlq/<id>`, but for `/api/dlq/purge`."""
    parent, _, last = endpoint.path.rpartition("/")
    beside = {
        each.path.removeprefix(f"{parent}/") for each in endpoints if each.path.startswith(f"{parent}/")
    }
    words = sorted(each for each in beside if "/" not in each and "{" not in each)
    if last.startswith("{") and words:
        last = f"<other_than({', '.join(map(repr, words))}):{last[1:-1]}>"
    return f"{parent}/{last}".replace("{", "<").replace("}", ">")
