"""Builds the Flask application of the HTTP API.

A request passes `http` (authentication, body, headers, errors), a handler in `routes` calls one verb or query
of the orchestrator, and the answer has a shape from `contract`. `ui` has the pages of the dashboard. Imports
go one way: `contract`, `oidc`, `http`, `server`, `routes`, `ui`, this file, `serve`. `create_app` is for WSGI
servers, `serve` for the command line. This package must never contain SQL or import `pipeweave.workers`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from flask import Flask
from werkzeug.routing import BaseConverter, Map

from pipeweave.api.http import (
    Authenticator,
    Endpoint,
    HttpApplication,
    Inside,
    MetricsText,
    PathRule,
    ProcessMetrics,
    Renewal,
    RequestPipeline,
    SocketRequests,
    addresses,
    docs_page,
    errors,
    headers,
    help_site,
    openapi,
    packing,
    proxies,
    worker_paths,
)
from pipeweave.api.oidc import Provider
from pipeweave.api.routes import ENDPOINTS
from pipeweave.api.ui import PARTS, SCREENS, Dashboard
from pipeweave.api.ui.announced_answers import AnnouncedAnswers
from pipeweave.api.ui.page_paths import is_page
from pipeweave.orchestrator import dispatch
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.metrics import KeptMetrics, read
from pipeweave.orchestrator.stream import Hub, LiveClock, LogWatch
from pipeweave.settings import Settings
from pipeweave.size_limits import MAX_BODY_BYTES

METRICS = "/metrics"


def create_app(settings: Settings, deployment: Deployment | None = None) -> Flask:
    """Build the WSGI application.

    Args:
        settings: where PostgreSQL and the broker are, CORS origins.
        deployment: an open deployment to use; when None, one is opened from the settings.
    """
    deployment = deployment or Deployment.open(settings, has_deadlines=True)
    app = HttpApplication("pipeweave.api", template_folder="templates", static_folder="static")
    app.url_rule_class = PathRule
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    # `/api/runs/` and `/api//runs` answer 404: a path has one spelling.
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.extensions["pipeweave"] = deployment
    endpoints = _with_access(ENDPOINTS, settings.metrics_access)
    app.extensions["pipeweave.openapi"] = functools.cache(lambda: openapi.build(endpoints))
    app.extensions["pipeweave.openapi_json"] = functools.cache(
        lambda: orjson.dumps(app.extensions["pipeweave.openapi"]())
    )
    app.url_map.converters |= {"other_than": OtherThan, "path_other_than": PathOtherThan}
    errors.register(app)
    addresses.register(app)
    headers.register(app, settings.cors_origins)
    packing.register(app)
    logs = LogWatch(deployment.database, deployment.values.backends, settings.secret_key)
    hub = Hub(deployment.database, settings.stream_limit, logs)
    app.extensions["pipeweave.hub"] = hub
    live = LiveClock(deployment.database, settings.stream_limit)
    app.extensions["pipeweave.live"] = live
    app.extensions["pipeweave.stop_dispatching"] = functools.partial(dispatch.stop, deployment.database)
    provider = Provider(settings) if settings.oidc_issuer and settings.ui_login != "token" else None
    renewal = Renewal(deployment.database, provider, settings) if provider else None
    authenticator = Authenticator(deployment.database, is_read_only=settings.ui_read_only, renewal=renewal)
    requests = RequestPipeline(deployment, authenticator, hub, live)
    requests.socket_requests = SocketRequests(app, endpoints)
    own = ProcessMetrics(deployment, hub)
    own.register(app)
    app.extensions["pipeweave.metrics"] = MetricsText(
        KeptMetrics(lambda: read(deployment.database)), own.read
    )
    _add_endpoints(app, requests, endpoints)
    docs_page.register(app)
    help_site.register(app)
    if settings.ui:
        inside = Inside(deployment, endpoints)
        screens = SCREENS + PARTS if settings.ui_parts else SCREENS
        dashboard = Dashboard(
            requests.authenticator, inside, screens, is_read_only=settings.ui_read_only, provider=provider
        )
        dashboard.register(app)
        # Within what rewrites addresses and knows the clients behind proxies, which is registered below.
        AnnouncedAnswers(authenticator, own.count).register(app)
        requests.view = dashboard.live_view
        app.extensions["pipeweave.is_page"] = is_page
    else:
        app.extensions["pipeweave.is_page"] = lambda path: False
        app.add_url_rule("/", "pages.home", docs_page.home, methods=["GET"])
    worker_paths.register(app)
    proxies.register(app, settings.trusted_proxies)
    return app


def _with_access(endpoints: Sequence[Endpoint], metrics_access: str) -> tuple[Endpoint, ...]:
    """The endpoints with METRICS_ACCESS: `open`, metrics need no token; `off`, there are none."""
    mine = (each for each in endpoints if metrics_access != "off" or each.path != METRICS)
    is_open = metrics_access == "open"
    return tuple(replace(each, scopes=()) if is_open and each.path == METRICS else each for each in mine)


class OtherThan(BaseConverter):
    """Matches an id in a path, but not the given words, which are paths of other endpoints."""

    def __init__(self, map: Map, *words: str) -> None:
        super().__init__(map)
        self.regex = rf"{_none_of(words)}[^/]+"


class PathOtherThan(BaseConverter):
    """Matches the rest of a path, with slashes, but not the given words: paths of other endpoints."""

    part_isolating = False

    def __init__(self, map: Map, *words: str) -> None:
        super().__init__(map)
        self.regex = rf"{_none_of(words)}.+"


def _none_of(words: Sequence[str]) -> str:
    return rf"(?!(?:{'|'.join(re.escape(word) for word in words)})\Z)" if words else ""


def _add_endpoints(app: Flask, requests: RequestPipeline, endpoints: Sequence[Endpoint]) -> None:
    def view(endpoint: Endpoint, **path_ids: str) -> Any:
        return requests.serve(endpoint, path_ids)

    words = _words(endpoints)
    for endpoint in endpoints:
        # A request for a WebSocket matches no other rule, and another request no rule for WebSockets.
        answer = functools.partial(view, endpoint)
        for is_socket in (False, True) if endpoint.upgrades else (False,):
            app.add_url_rule(
                _rule(endpoint, words),
                endpoint.operation_id,
                answer,
                methods=[endpoint.method],
                websocket=is_socket,
            )


def _words(endpoints: Sequence[Endpoint]) -> Mapping[str, Sequence[str]]:
    """Path -> the words right below it that are the ends of paths of endpoints."""
    below: dict[str, set[str]] = {}
    for endpoint in endpoints:
        parent, _, last = endpoint.path.rpartition("/")
        below.setdefault(parent, set()).update(() if "{" in last else {last})
    return {parent: sorted(words) for parent, words in below.items()}


def _rule(endpoint: Endpoint, words_below: Mapping[str, Sequence[str]]) -> str:
    """The path as werkzeug writes it. `/api/dlq/<id>` does not match `purge`, another endpoint's path."""
    parent, _, last = endpoint.path.rpartition("/")
    words = words_below[parent]
    if last.startswith("{") and (words or endpoint.ids[last[1:-1]].is_path):
        converter = "path_other_than" if endpoint.ids[last[1:-1]].is_path else "other_than"
        arguments = f"({', '.join(map(repr, words))})" if words else ""
        last = f"<{converter}{arguments}:{last[1:-1]}>"
    return f"{parent}/{last}".replace("{", "<").replace("}", ">")
