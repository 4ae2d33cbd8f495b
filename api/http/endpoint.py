"""Defines the rows of the route table: the path, scopes, parameters, answers and errors of each endpoint.

Flask's routes, the checks of each request and the OpenAPI document are made from these rows, so they agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel

from pipeweave.api.http.auth import Identity
from pipeweave.api.http.request_line import Answer as AnswerMessage
from pipeweave.api.http.request_line import Submit
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.deployment import Deployment, audited_objects
from pipeweave.orchestrator.domain import TriggeredBy
from pipeweave.orchestrator.security import READ, CallerAccess, audit
from pipeweave.orchestrator.store import Transaction
from pipeweave.orchestrator.stream import Holder, Hub, LiveClock, TaggedView

Handler = TypeVar("Handler", bound=Callable[..., Any])
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PathId:
    """An id in a path. `prefix` is the prefix of its TypeID, or None for a name.

    `is_path` marks the last part of an address that is a path itself, with slashes: its endpoint checks it.
    """

    prefix: str | None
    description: str
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its own status or headers. A handler that returns a plain value answers 200."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watching:
    """What an endpoint needs that answers with a stream.

    Args:
        hub: serves all streams of this process.
        check: raises an error when the caller has lost the right to watch.
        live: tells the pages that watch in this process to look again.
        view: the view that the caller sees at an address of a page, below its tenant.
        holder: whose the stream is.
        answer: answers a request that comes as a message of a WebSocket; it raises nothing.
        submit: lets a thread of the server call a function; None: the server has no WebSockets.
    """

    hub: Hub
    check: Callable[[], object]
    live: LiveClock
    view: Callable[[str], TaggedView]
    holder: Holder
    answer: AnswerMessage
    submit: Submit | None


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request, as a handler receives it.

    Args:
        deployment: the database, the broker and the settings.
        tenant: the tenant of the request; empty for endpoints that need no token.
        key: the Idempotency-Key of the request, if the endpoint takes one.
        sees_all: whether a token that may read every tenant came to an open endpoint with `tells_more`.
        identity: whose token or session the request has; None for endpoints that need no token.
        peer: the address that the request came from, if it is known.
        traceparent: the trace context of the request; None without one, or with an invalid one.
        watching: for an endpoint that `streams`.
        note: for an audited endpoint, its row of the audit, which `change` writes.
        tenants: of an endpoint that `spans_tenants`: the tenants to answer for; None: every tenant.
    """

    deployment: Deployment
    tenant: str
    key: str | None = None
    sees_all: bool = False
    identity: Identity | None = None
    peer: str | None = None
    traceparent: str | None = None
    watching: Watching | None = None
    tenants: tuple[str, ...] | None = ()
    note: audit.Note | None = None

    @property
    def token_name(self) -> str:
        """The name of the request's token; empty for endpoints that need no token."""
        return self.identity.access.name if self.identity else ""

    @property
    def access(self) -> CallerAccess:
        """What the request's token allows. Only for endpoints that need one."""
        assert self.identity is not None, "the endpoint has scopes"
        return self.identity.access

    @property
    def cause(self) -> TriggeredBy:
        """What begins a run that this request asks for."""
        return TriggeredBy(actor=self.token_name or None, traceparent=self.traceparent)

    def change(self, verb: Callable[[Transaction], Result], *, is_one: bool = True) -> Result:
        """Run a verb in a transaction; run it again if PostgreSQL aborted it to resolve a deadlock.

        Args:
            verb: gets the transaction and changes rows.
            is_one: False: each statement commits by itself, unless the verb holds them together
                (`Database.statements`). The verb of an audited endpoint is one transaction in any case.
        """
        note = self.note
        if note is None:
            return self.deployment.database.run(verb, is_one=is_one)
        return self.deployment.database.run(
            lambda tx: audit.recorded(tx, note, verb, audited_objects.AUDITED), is_one=is_one
        )

    def read_first(self, verb: Callable[[Transaction], Result]) -> Result:
        """Read, before a change, from the connections of verbs."""
        return self.deployment.database.run(verb, is_one=False)

    def reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction from the pool of readers, with a statement timeout."""
        return self.deployment.database.reading()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the route table.

    Attributes:
        path: the path as OpenAPI writes it, e.g. `/api/runs/{id}`.
        scopes: the token needs one of these scopes; empty: no token is needed.
        answers: status -> (model, description).
        errors: errors of the handler, beyond those of the request pipeline.
        is_for_all: the endpoint concerns every tenant, so the token must be valid for all tenants.
        spans_tenants: the endpoint answers for all tenants of the token, unless the request names one.
        is_about_caller: the endpoint concerns what the token itself may see, so the request need not name a
            tenant.
        is_body_optional: an absent body counts as `{}`.
        takes_file: the body is a form with one file; the endpoint gets a `FormFile` as `form`.
        takes_bytes: the body is stored as it is; the endpoint gets a `RawBody` as `body`.
        gives_lines: the endpoint answers with `Lines`.
        gives_file: the endpoint may answer with a `Download`.
        gives_text: the endpoint answers with a `Text`: its media types.
        streams: the endpoint answers with a `Stream`: its media type; None: with JSON.
        longest_key: the longest Idempotency-Key in characters; 0: the endpoint takes none.
        vouches: of an open endpoint: checks the ids of the path before a byte of the body is read, and raises
            if they are not of somebody who may send one.
        tells_more: the endpoint is open, and answers more to a token that may read every tenant.
        links: operation id -> JSON pointer to the id in the answer that the operation takes, e.g.
            `/pipelineRunId`.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    tag: str
    summary: str
    scopes: tuple[str, ...]
    answers: Mapping[int, tuple[type[BaseModel] | None, str]]
    is_for_all: bool = False
    spans_tenants: bool = False
    is_about_caller: bool = False
    body: type[BaseModel] | None = None
    is_body_optional: bool = False
    takes_file: bool = False
    takes_bytes: bool = False
    gives_file: bool = False
    gives_text: tuple[str, ...] = ()
    streams: str | None = None
    gives_lines: bool = False
    longest_key: int = 0
    query: type[BaseModel] | None = None
    ids: Mapping[str, PathId] = field(default_factory=dict)
    errors: tuple[type[PipeWeaveError], ...] = ()
    example: Any = None
    tells_more: bool = False
    vouches: Callable[[Deployment, Mapping[str, str]], None] | None = None
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation_id(self) -> str:
        return _operation_id(self.handler)

    @property
    def description(self) -> str:
        """The handler's docstring as paragraphs without line breaks."""
        paragraphs = (self.handler.__doc__ or "").strip().split("\n\n")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    @property
    def upgrades(self) -> bool:
        """Whether it answers with a WebSocket."""
        return HTTPStatus.SWITCHING_PROTOCOLS in self.answers

    @property
    def is_open(self) -> bool:
        return not self.scopes

    @property
    def speaks_json(self) -> bool:
        """Whether its body and its answer are JSON, or nothing."""
        is_more = self.takes_file or self.takes_bytes or self.gives_file or self.gives_lines
        return not (is_more or self.gives_text or self.streams)


class Routes:
    """The endpoints of one file: `@routes.add("GET", "/api/runs", ...)` above each handler."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.endpoints: list[Endpoint] = []

    def add(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        scopes: tuple[str, ...] = (READ,),
        answer: type[BaseModel] | None = None,
        answers: Mapping[int, tuple[type[BaseModel] | None, str]] | None = None,
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Add the decorated function to the table.

        Args:
            method: the HTTP method.
            path: the path as OpenAPI writes it.
            summary: the summary in the OpenAPI document.
            scopes: the token needs one of these scopes; empty: no token is needed.
            answer: the model of the answer of an endpoint that only answers 200.
            answers: status -> (model, description), for any other endpoint.
            options: further fields of Endpoint.
        """

        def append(handler: Handler) -> Handler:
            responses = answers or {200: (answer, "OK")}
            self.endpoints.append(
                Endpoint(method, path, handler, self.tag, summary, scopes, responses, **options)
            )
            return handler

        return append


@functools.lru_cache(maxsize=1024)
def _operation_id(handler: Callable[..., Any]) -> str:
    return f"{handler.__module__.rpartition('.')[2]}.{handler.__name__}"
