"""Serves one request: authenticates it, parses it, calls the handler and renders the answer.

Authentication comes first, so that a caller without a token cannot make the API parse a body of ten
megabytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from flask import Request, Response
from werkzeug.datastructures import MultiDict

from pipeweave.api.http import (
    audited,
    browser,
    idempotency_header,
    proxies,
    slow_bodies,
    streaming,
    worker_paths,
)
from pipeweave.api.http.application import current_request
from pipeweave.api.http.auth import Admission, Authenticator, Identity, is_exempt
from pipeweave.api.http.body import parse_query, read_body
from pipeweave.api.http.download import Download, answered
from pipeweave.api.http.endpoint import Answer, Call, Endpoint, Watching
from pipeweave.api.http.form_file import FormFile
from pipeweave.api.http.headers import TRACEPARENT, request_id
from pipeweave.api.http.inside import Caller
from pipeweave.api.http.json_answer import JsonAnswer
from pipeweave.api.http.metrics_text import Text
from pipeweave.api.http.ndjson import Lines, streamed
from pipeweave.api.http.raw_body import RawBody
from pipeweave.api.http.request_rates import RequestRates
from pipeweave.api.http.right_to_watch import RightToWatch
from pipeweave.api.http.socket_requests import SocketRequests
from pipeweave.api.http.streaming import Stream
from pipeweave.errors import NotFound
from pipeweave.ids import check_name
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.security import Peer
from pipeweave.orchestrator.stream import Holder, Hub, LiveClock, TaggedView

JSON_TYPE = "application/json"
_JSON = orjson.OPT_UTC_Z
_NO_PARAMETERS = MultiDict[str, str]()


# Gets the caller, the address of the server, and the address of a page.
ViewOf = Callable[[Caller, str, str], TaggedView]


def _no_page(caller: Caller, host: str, url: str) -> TaggedView:
    raise NotFound("this server has no dashboard", hint="it is switched off by the setting UI")


class RequestPipeline:
    """Serves the endpoints of one deployment."""

    def __init__(
        self, deployment: Deployment, authenticator: Authenticator, hub: Hub, live: LiveClock
    ) -> None:
        self._deployment = deployment
        self._live = live
        # What a page shows; the dashboard sets it.
        self.view: ViewOf = _no_page
        # Serves what comes over WebSockets; whoever builds the application sets it.
        self.socket_requests: SocketRequests | None = None
        self.authenticator = authenticator
        self._rates = RequestRates(deployment.database)
        self._hub = hub

    def serve(self, endpoint: Endpoint, path_ids: Mapping[str, str]) -> Response:
        """Answer the current request.

        Raises:
            PipeWeaveError: the request is refused; errors.py turns the error into a problem document.
        """
        request = current_request()
        worker_paths.check(endpoint, request)
        peer = proxies.peer_of(request)
        admission = None if endpoint.is_open else self._authenticated(endpoint, request, peer)
        if endpoint.vouches is not None:
            endpoint.vouches(self._deployment, path_ids)
        if admission is not None or endpoint.vouches is not None:
            slow_bodies.trust(request)
        arguments = _arguments(endpoint, path_ids, request)
        asked = request.headers
        key = idempotency_header.read(asked, endpoint.longest_key) if endpoint.longest_key else None
        sees_all = endpoint.tells_more and self.authenticator.may_read_all(asked, peer)
        tenant, identity = (admission.tenant, admission.identity) if admission else ("", None)
        traceparent = tracing.read(asked.get(TRACEPARENT))
        watching = self._watching(endpoint, tenant, identity) if endpoint.streams and identity else None
        tenants = admission.tenants if admission else None
        body = arguments.get("body")
        note = audited.note_of(endpoint, tenant, identity, path_ids, body, asked, request_id())
        call = Call(
            self._deployment,
            tenant,
            key,
            sees_all,
            identity,
            peer.address,
            traceparent,
            watching,
            tenants,
            audited.written_by_change(note),
        )
        result = audited.handled(self._deployment.database, note, lambda: endpoint.handler(call, **arguments))
        return _rendered(result, request)

    def _watching(self, endpoint: Endpoint, tenant: str, identity: Identity) -> Watching:
        caller = Caller(identity.access, tenant)
        request = current_request()
        host = request.host_url.rstrip("/")
        view = functools.partial(self.view, caller, host)
        holder = Holder(identity.access.id, tenant)
        assert self.socket_requests is not None, "the application is whole"
        answer, submit = self.socket_requests.of(request.environ), request.environ.get(streaming.SUBMIT)
        return Watching(self._hub, self._check(endpoint), self._live, view, holder, answer, submit)

    def _check(self, endpoint: Endpoint) -> Callable[[], object]:
        """Authenticates the present request once more, also when it is over."""
        request = current_request()
        return RightToWatch(
            self.authenticator,
            request.headers.get("Authorization", ""),
            request.headers.get("X-Tenant", ""),
            endpoint.scopes,
            browser.session_of(request),
            proxies.peer_of(request),
        )

    def _authenticated(self, endpoint: Endpoint, request: Request, peer: Peer) -> Admission:
        admission = self.authenticator.admit(
            request.headers,
            endpoint.scopes,
            is_for_all=endpoint.is_for_all,
            spans_tenants=endpoint.spans_tenants,
            is_about_caller=endpoint.is_about_caller,
            session=browser.session_of(request),
            peer=peer,
        )
        access = admission.identity.access
        gate = access.gates.get(admission.tenant)
        if gate is not None and gate.rate is not None and not is_exempt(access, endpoint.scopes):
            self._rates.take(admission.tenant, gate.rate)
        return admission


def _arguments(endpoint: Endpoint, path_ids: Mapping[str, str], request: Request) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(path_ids)
    for name, text in path_ids.items():
        if endpoint.ids[name].prefix is None and not endpoint.ids[name].is_path:
            check_name(text, name)
    query = parse_query(request.args if request.query_string else _NO_PARAMETERS, endpoint.query)
    if query is not None:
        arguments["query"] = query
    if endpoint.body is not None:
        arguments["body"] = read_body(request, endpoint.body, is_optional=endpoint.is_body_optional)
    if endpoint.takes_bytes:
        arguments["body"] = RawBody(request)
    if endpoint.takes_file:
        arguments["form"] = FormFile(request)
    return arguments


def _rendered(result: Any, request: Request) -> Response:
    if isinstance(result, Download):
        return answered(request, result)
    if isinstance(result, Stream):
        return streaming.answered(request, result)
    if isinstance(result, Lines):
        return streamed(request, result)
    if isinstance(result, Text):
        return Response(result.content, 200, {"Vary": "Accept"}, content_type=result.content_type)
    answer = result if isinstance(result, Answer) else Answer(result)
    content = answer.value if isinstance(answer.value, bytes) else orjson.dumps(answer.value, option=_JSON)
    if answer.headers:
        return Response(content, answer.status, dict(answer.headers), content_type=JSON_TYPE)
    return JsonAnswer(content, answer.status, content_type=JSON_TYPE)
