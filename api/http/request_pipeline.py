"""The way of one request: who asks, what is asked, the handler's verb, the answer.

Authentication comes before anything of the request is read, so that nobody without a token can make the API
parse ten megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response, request

from pipeweave.api.http import idempotency_header
from pipeweave.api.http.auth import Gate
from pipeweave.api.http.body import read_body, read_query
from pipeweave.api.http.endpoint import Answer, Call, Endpoint
from pipeweave.ids import check_name
from pipeweave.orchestrator.deployment.deployment import Deployment

JSON_TYPE = "application/json"
_JSON = orjson.OPT_UTC_Z


class Door:
    """Serves endpoints in the name of one deployment."""

    def __init__(self, deployment: Deployment, gate: Gate) -> None:
        self._deployment = deployment
        self._gate = gate

    def serve(self, endpoint: Endpoint, path_ids: Mapping[str, str]) -> Response:
        """Answer the current request.

        Raises:
            PipeWeaveError: whatever refuses it; errors.py makes a problem document of it.
        """
        tenant = "" if endpoint.is_open else self._admitted(endpoint)
        arguments = _arguments(endpoint, path_ids)
        key = idempotency_header.read(request.headers, endpoint.longest_key) if endpoint.longest_key else None
        result = endpoint.handler(Call(self._deployment, tenant, key), **arguments)
        return _rendered(result)

    def _admitted(self, endpoint: Endpoint) -> str:
        return self._gate.admit(request.headers, endpoint.scopes, is_for_all=endpoint.is_for_all)


def _arguments(endpoint: Endpoint, path_ids: Mapping[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(path_ids)
    for name, text in path_ids.items():
        if endpoint.ids[name].prefix is None:
            check_name(text, name)
    query = read_query(request, endpoint.query)
    if query is not None:
        arguments["query"] = query
    if endpoint.body is not None:
        arguments["body"] = read_body(request, endpoint.body, is_optional=endpoint.is_body_optional)
    return arguments


def _rendered(result: Any) -> Response:
    answer = result if isinstance(result, Answer) else Answer(result)
    content = answer.value if isinstance(answer.value, bytes) else orjson.dumps(answer.value, option=_JSON)
    return Response(content, answer.status, dict(answer.headers), content_type=JSON_TYPE)
