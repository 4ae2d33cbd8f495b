"""Builds the OpenAPI 3.1 document from the route table and the models of requests and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from pipeweave.api.contract.answers import Problem
from pipeweave.api.http import browser, form_file, headers, idempotency_header
from pipeweave.api.http.endpoint import Endpoint, PathId
from pipeweave.api.http.errors import PROBLEM_TYPE
from pipeweave.api.http.headers import REQUEST_ID
from pipeweave.api.http.ndjson import NDJSON
from pipeweave.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    PipeWeaveError,
    QuotaExceeded,
    RequestTimeout,
    TenantRequired,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from pipeweave.ids import MAX_NAME_LENGTH, NAME_PATTERN
from pipeweave.orchestrator.documents.base import type_id_pattern
from pipeweave.orchestrator.security import EVERY_TENANT
from pipeweave.size_limits import MAX_BODY_BYTES
from pipeweave.storage.base import MAX_PATH_BYTES

OPENAPI = "3.1.0"
_JSON = "application/json"
REF = "#/components/schemas/{model}"

TAGS: Mapping[str, str] = {
    "system": "Health, version, this document and the tick.",
    "services": "Registered services and their tasks.",
    "tasks": "Registered tasks: options, pauses, code history and input schemas.",
    "pipelines": "Versioned graphs of steps: store, plan and trigger them.",
    "expressions": "Expressions of conditions and params, to try them out.",
    "queue": "Standalone tasks, the queue of a tenant, its pause and its limit of active runs.",
    "storage": "Stored objects: backends, inputs, outputs, files; the sweep of what nothing refers to.",
    "uploads": "Files that are stored before the run that uses them.",
    "waits": "What runs wait for: signals, approvals, sleeps.",
    "runs": "Runs of pipelines: status, task runs, events; to pause, resume and cancel them.",
    "bulk changes": "One action on many runs: cancel, pause, resume, rerun, retry. The tick works it off.",
    "exports": "The rows of many runs as lines of JSON: runs, task runs, attempts, events and logs.",
    "workers": "Worker processes: what they do, and their drain. What HTTP workers report, and what they may"
    " read: there the signed `runId` stands for a token.",
    "dead letters": "Task runs that failed and have no attempt left: list, retry, discard and delete them.",
    "statistics": "What runs and attempts came to over time: counts, shares, durations.",
    "schedules": "Runs that start by themselves: by a cron line, after each interval, or once.",
    "triggers": "Runs that start when something happens: webhooks, and the ends of runs and tasks.",
    "callbacks": "What other systems report of calls that have suspended themselves. The signed token of the"
    " path stands for an access token.",
    "webhooks": "What others send to start a run. A signature stands for a token.",
    "streams": "Changes of runs as they come: server-sent events and WebSockets.",
    "access": "Tokens, the sessions of browsers that stand for them, and tenants.",
    "bundles": "Signed files with tasks and pipelines, and the keys that a tenant trusts.",
    "views": "Filters of a screen of the dashboard under a name, which a tenant shares.",
    "maintenance": "Maintenance mode of the whole deployment, for administrators.",
}

ABOUT = f"""Durable pipelines on Celery.

Every request under `/api` carries a bearer token (`pipeweave token create`); with one that is valid
for several tenants it also names its tenant in `X-Tenant`. A resource of another tenant answers 404. A
revoked token is refused within
2 seconds. Errors are problem documents (RFC 9457) with a stable `code`, and one entry in `errors` for each
wrong field. Bodies are JSON of at most {MAX_BODY_BYTES:,} bytes. Lists are paged: `nextCursor` of one page
is `cursor` of the next, and null on the last."""


def build(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Build the document of the endpoints."""
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
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": browser.SECURE_NAME},
            },
        },
    }


_NAME = {"type": "string", "pattern": NAME_PATTERN, "maxLength": MAX_NAME_LENGTH}
_TENANT = {
    "name": "X-Tenant",
    "in": "header",
    "required": False,
    "description": "The tenant of the request; by default the only tenant of the token.",
    "schema": _NAME,
}
_REQUEST_ID_HEADER = {
    "description": "The X-Request-Id of the request if it had one, else a new id.",
    "schema": {"type": "string"},
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.operation_id,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": f"{endpoint.description}\n\n{_needs(endpoint)}".strip(),
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint),
        "security": _security(endpoint),
    }
    if endpoint.takes_file:
        operation["requestBody"] = {"required": True, "content": {form_file.FORM: {"schema": _FORM}}}
    if endpoint.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": {}}}}
    if endpoint.body is not None:
        media: dict[str, Any] = {"schema": _reference(endpoint.body)}
        if endpoint.example is not None:
            media["example"] = endpoint.example
        operation["requestBody"] = {
            "required": not endpoint.is_body_optional,
            "content": {_JSON: media},
        }
    return operation


def _needs(endpoint: Endpoint) -> str:
    if endpoint.is_open:
        more = " With one that may read every tenant, the answer has more." if endpoint.tells_more else ""
        return f"Needs no token.{more}"
    scopes = " or ".join(f"`{scope}`" for scope in endpoint.scopes)
    where = f" in a token that is valid for every tenant (`{EVERY_TENANT}`)" if endpoint.is_for_all else ""
    return f"Needs the scope {scopes}{where}."


def _security(endpoint: Endpoint) -> list[dict[str, Any]]:
    if not endpoint.is_open:
        return [{"token": []}, {"session": []}]
    return [{}, {"token": []}] if endpoint.tells_more else []


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = [] if endpoint.is_open else [{"$ref": "#/components/parameters/Tenant"}]
    if endpoint.longest_key:
        listed += [_key_parameter(endpoint.longest_key), _TRACE_PARAMETER]
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
        "description": "A second request with the same key creates nothing and gets the answer of the first.",
        "schema": {"type": "string", "pattern": idempotency_header.pattern(longest)},
    }


# Any text is accepted: the standard says that an invalid one is ignored.
_TRACE_PARAMETER = {
    "name": headers.TRACEPARENT,
    "in": "header",
    "required": False,
    "description": "The trace context of the caller (W3C Trace Context): new runs belong to its trace.",
    "schema": {"type": "string"},
}


def _without_null(part: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Remove null from a schema, because a query parameter in a URL is absent or has a value."""
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
    schema = _NAME if kind.prefix is None else {"type": "string", "pattern": type_id_pattern(kind.prefix)}
    if kind.is_path:
        schema = {"type": "string", "minLength": 1, "maxLength": MAX_PATH_BYTES}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": kind.description,
        "schema": schema,
    }


# --- answers ----------------------------------------------------------------------------------------------

_REFUSALS: dict[int, str] = {
    400: "The request is not valid.",
    401: "The request has no valid bearer token, or no valid signature.",
    403: "The token lacks the scope, or is not valid for every tenant; or the tenant is disabled.",
    404: "The resource does not exist, or belongs to another tenant.",
    409: "The current state does not allow the request.",
    410: "The upload was deleted, or the events after the cursor are gone.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    414: "The path and its query are too long.",
    415: "The body has another media type.",
    416: "The object has no bytes in the requested range.",
    426: "The address is for WebSockets, and the request does not ask for one.",
    422: "What the request names cannot be used: an upload that is gone, or an object that is not JSON.",
    429: "More requests come than are taken, or a quota of the tenant is used up.",
    500: "An internal error; the log has the details under `incident`.",
    503: "PostgreSQL, the broker or storage cannot be reached, or maintenance refuses new work.",
}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses = {
        str(status): {**_answer(status, model, about), **_links(endpoint)}
        for status, (model, about) in endpoint.answers.items()
    }
    if endpoint.streams:
        responses = {status: _streamed(each, endpoint.streams) for status, each in responses.items()}
    if endpoint.gives_text:
        text = {"schema": {"type": "string"}}
        responses["200"]["content"] = dict.fromkeys(endpoint.gives_text, text)
    if endpoint.gives_lines:
        responses["200"]["content"] = _LINES
    if endpoint.gives_file:
        content = responses["200"]["content"]
        content[_JSON]["schema"] = {"anyOf": [content[_JSON]["schema"], _AS_IT_IS]}
        content |= _BYTES["content"]
        responses |= {"206": _BYTES | {"description": "The requested range."}, "304": _UNCHANGED}
    refused = {str(int(status)) for status in _refused(endpoint)} - responses.keys()
    return responses | {status: {"$ref": f"#/components/responses/{status}"} for status in sorted(refused)}


def _answer(status: int, model: type[BaseModel] | None, about: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"description": about or HTTPStatus(status).phrase}
    if status < 400:
        shown["headers"] = {REQUEST_ID: {"$ref": "#/components/headers/RequestId"}}
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        return shown
    schema = {"type": "object"} if model is None else _reference(model)
    shown["content"] = {_JSON: {"schema": schema}}
    return shown


def _streamed(answer: dict[str, Any], media_type: str) -> dict[str, Any]:
    """The answer whose body is text in a format of its own."""
    return answer | ({"content": {media_type: {"schema": {"type": "string"}}}} if "content" in answer else {})


# A file may have any media type.
_BYTES: dict[str, Any] = {
    "headers": {REQUEST_ID: {"$ref": "#/components/headers/RequestId"}},
    "content": {"*/*": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}},
}
_LINES: dict[str, Any] = {NDJSON: {"schema": {"type": "string", "contentMediaType": NDJSON}}}
_AS_IT_IS = {"description": "The object itself, as it was stored."}
_UNCHANGED = {"description": "The object is the one that If-None-Match names."}
_FORM = {
    "type": "object",
    "properties": {form_file.FIELD: {"type": "string", "contentMediaType": "application/octet-stream"}},
    "required": [form_file.FIELD],
    "additionalProperties": False,
}


def _links(endpoint: Endpoint) -> dict[str, Any]:
    """Links from ids in the answer to the operations that take them."""
    links = {
        f"{name.rpartition('.')[2]} by {pointer[1:]}": {
            "operationId": name,
            "parameters": {"id": f"$response.body#{pointer}"},
        }
        for name, pointer in endpoint.links.items()
    }
    return {"links": links} if links else {}


def _refused(endpoint: Endpoint) -> set[int]:
    """The statuses of all errors of the request pipeline and of the handler."""
    kinds: set[type[PipeWeaveError]] = {*endpoint.errors, InvalidInput, PipeWeaveError}
    if not endpoint.is_open:
        kinds |= {Unauthenticated, TenantRequired, NotFound, Forbidden, QuotaExceeded, Unavailable}
    if endpoint.takes_bytes:
        kinds |= {PayloadTooLarge, RequestTimeout}
    if endpoint.body is not None or endpoint.takes_file:
        kinds |= {PayloadTooLarge, RequestTimeout, UnsupportedMediaType}
    return {kind.status for kind in kinds} | {HTTPStatus.REQUEST_URI_TOO_LONG}


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": _REFUSALS[status],
        "headers": {REQUEST_ID: {"$ref": "#/components/headers/RequestId"}},
        "content": {PROBLEM_TYPE: {"schema": _reference(Problem)}},
    }


# --- schemas ----------------------------------------------------------------------------------------------


def _schemas(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The schema of every model the endpoints use: of requests as read, of answers as written."""
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
