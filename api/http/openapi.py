"""The OpenAPI 3.1 document, made from the route table and the models: what it says is what is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from pipeweave.api.contract.answers import Problem, type_id_pattern
from pipeweave.api.http import idempotency_header
from pipeweave.api.http.endpoint import Endpoint, PathId
from pipeweave.api.http.errors import PROBLEM_TYPE
from pipeweave.api.http.headers import REQUEST_ID
from pipeweave.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    PipeWeaveError,
    TenantRequired,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from pipeweave.size_limits import MAX_BODY_BYTES

OPENAPI = "3.1.0"
NAME_PATTERN = "^[A-Za-z0-9._~:@-]{1,200}$"
TENANT_PATTERN = NAME_PATTERN
REF = "#/components/schemas/{model}"

TAGS: Mapping[str, str] = {
    "system": "Health, version, this document, and the tick.",
    "services": "Registered workers and the tasks they bring.",
    "tasks": "Registered units of work: code history and input schemas.",
    "pipelines": "Versioned DAGs of steps: store, plan, trigger.",
    "queue": "Single tasks outside any pipeline, and how much is waiting.",
    "runs": "Executions of pipelines: status, task runs, events, cancelling.",
    "dead letters": "Task runs that failed for good: look at them, retry them, put them aside.",
    "maintenance": "Accept nothing new, let what is open end, and be quiet: for administrators.",
}

ABOUT = f"""Durable pipelines on Celery.

Every request under `/api` names its tenant in `X-Tenant` and carries a bearer token
(`pipeweave token create`). What is not yours answers 404. A revoked token is refused everywhere within
2 seconds. Errors are problem documents (RFC 9457) with a stable `code`, and one entry in `errors` for each
wrong field. Bodies are JSON of at most {MAX_BODY_BYTES:,} bytes. Lists are paged: `nextCursor` of one page
is `cursor` of the next, and null on the last."""


def build(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document of these endpoints."""
    rows = tuple(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in rows:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "PipeWeave",
            "version": version("pipeweave"),
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _schemas(rows),
            "parameters": {"Tenant": _TENANT},
            "headers": {"RequestId": _REQUEST_ID_HEADER},
            "responses": {str(status): _problem(status) for status in sorted(_REFUSALS)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_TENANT = {
    "name": "X-Tenant",
    "in": "header",
    "required": True,
    "description": "The tenant in whose name this is asked.",
    "schema": {"type": "string", "pattern": TENANT_PATTERN},
}
_REQUEST_ID_HEADER = {
    "description": "The request's own X-Request-Id where it had one, else a new one.",
    "schema": {"type": "string"},
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    scopes = " or ".join(f"`{scope}`" for scope in endpoint.scopes)
    needs = f"Needs the scope {scopes}." if scopes else "Open to everyone."
    operation: dict[str, Any] = {
        "operationId": endpoint.operation_id,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": f"{endpoint.description}\n\n{needs}".strip(),
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint),
        "security": [] if endpoint.is_open else [{"token": []}],
    }
    if endpoint.body is not None:
        media: dict[str, Any] = {"schema": _reference(endpoint.body)}
        if endpoint.example is not None:
            media["example"] = endpoint.example
        operation["requestBody"] = {
            "required": not endpoint.is_body_optional,
            "content": {"application/json": media},
        }
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [] if endpoint.is_open else [{"$ref": "#/components/parameters/Tenant"}]
    if endpoint.longest_key:
        listed.append(_key_parameter(endpoint.longest_key))
    listed += [_path_parameter(name, kind) for name, kind in endpoint.ids.items()]
    if endpoint.query is not None:
        schema = endpoint.query.model_json_schema(ref_template=REF)
        required = schema.get("required", [])
        for name, described in schema["properties"].items():
            part = _without_null(described, schema.get("$defs", {}))
            about = part.pop("description", None)
            row = {"name": name, "in": "query", "required": name in required, "schema": part}
            listed.append(row if about is None else {**row, "description": about})
    return listed


def _key_parameter(longest: int) -> dict[str, Any]:
    return {
        "name": idempotency_header.HEADER,
        "in": "header",
        "required": False,
        "description": "A request with the same key is answered with what the first one created.",
        "schema": {"type": "string", "pattern": idempotency_header.pattern(longest)},
    }


def _without_null(part: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A query parameter is absent or it is something; there is no null in a URL."""
    kinds = [
        {"type": "string", "enum": known[each["$ref"].rpartition("/")[2]]["enum"]} if "$ref" in each else each
        for each in part.get("anyOf", [])
        if each != {"type": "null"}
    ]
    plain = {
        name: value for name, value in part.items() if name != "anyOf" and (name, value) != ("default", None)
    }
    if not kinds:
        return plain
    return {**plain, **kinds[0]} if len(kinds) == 1 else {**plain, "anyOf": kinds}


def _path_parameter(name: str, kind: PathId) -> dict[str, Any]:
    pattern = NAME_PATTERN if kind.prefix is None else type_id_pattern(kind.prefix)
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": kind.description,
        "schema": {"type": "string", "pattern": pattern},
    }


# --- answers ----------------------------------------------------------------------------------------------

_REFUSALS: dict[int, str] = {
    400: "What was sent is not valid.",
    401: "A valid bearer token is needed.",
    403: "The token lacks the scope for this.",
    404: "There is no such thing, or it is not yours.",
    409: "The current state does not allow that.",
    413: "The body is too large.",
    414: "The path and its query are too long.",
    415: "The body must be JSON.",
    500: "Something went wrong inside PipeWeave; `incident` is in its log.",
    503: "Something PipeWeave needs is away, or nothing new is accepted now.",
}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    given = {
        str(status): {**_answer(status, model, about), **_links(endpoint)}
        for status, (model, about) in endpoint.answers.items()
    }
    refused = {str(int(status)) for status in _refused(endpoint)} - given.keys()
    return given | {status: {"$ref": f"#/components/responses/{status}"} for status in sorted(refused)}


def _answer(status: int, model: type[BaseModel] | None, about: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"description": about or HTTPStatus(status).phrase}
    if status < 400:
        shown["headers"] = {REQUEST_ID: {"$ref": "#/components/headers/RequestId"}}
    schema = {"type": "object"} if model is None else _reference(model)
    shown["content"] = {"application/json": {"schema": schema}}
    return shown


def _links(endpoint: Endpoint) -> dict[str, Any]:
    """Where to go on with an id of the answer."""
    links = {
        f"{name.rpartition('.')[2]} by {pointer[1:]}": {
            "operationId": name,
            "parameters": {"id": f"$response.body#{pointer}"},
        }
        for name, pointer in endpoint.links.items()
    }
    return {"links": links} if links else {}


def _refused(endpoint: Endpoint) -> set[int]:
    """The statuses of every error that the door or the handler may answer."""
    kinds: set[type[PipeWeaveError]] = {*endpoint.errors, InvalidInput, PipeWeaveError}
    if not endpoint.is_open:
        kinds |= {Unauthenticated, TenantRequired, NotFound, Forbidden, Unavailable}
    if endpoint.body is not None:
        kinds |= {PayloadTooLarge, UnsupportedMediaType}
    return {kind.status for kind in kinds} | {HTTPStatus.REQUEST_URI_TOO_LONG}


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": _REFUSALS[status],
        "headers": {REQUEST_ID: {"$ref": "#/components/headers/RequestId"}},
        "content": {PROBLEM_TYPE: {"schema": _reference(Problem)}},
    }


# --- schemas ----------------------------------------------------------------------------------------------


def _schemas(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Every model the endpoints use: requests as they are read, answers as they are written."""
    wanted: dict[type[BaseModel], JsonSchemaMode] = {Problem: "serialization"}
    for endpoint in endpoints:
        for model, _ in endpoint.answers.values():
            if model is not None:
                wanted[model] = "serialization"
        if endpoint.body is not None:
            wanted[endpoint.body] = "validation"
    _, schema = models_json_schema(list(wanted.items()), ref_template=REF)
    schemas: dict[str, Any] = schema["$defs"]
    return dict(sorted(schemas.items()))


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}
