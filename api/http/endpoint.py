"""The route table: what each endpoint needs, takes, answers and refuses, said once.

Flask's routes, the checks at the door and the OpenAPI document are all made from these rows, so they cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ
from pipeweave.orchestrator.store.database import Transaction

Handler = TypeVar("Handler", bound=Callable[..., Any])
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PathId:
    """An id in a path: the prefix of its TypeID, or None for a name."""

    prefix: str | None
    description: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back when it is not simply 200 and JSON."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One admitted request: for which tenant (empty on open routes), and the way to the orchestrator.

    Args:
        key: its Idempotency-Key, where the endpoint takes one.
    """

    deployment: Deployment
    tenant: str
    key: str | None = None

    def change(self, verb: Callable[[Transaction], Result], *, is_one: bool = True) -> Result:
        """Do a verb in a transaction; again, when PostgreSQL broke a deadlock at its cost.

        Without `is_one`, the verb holds together itself what must commit together (`Database.statements`).
        """
        return self.deployment.database.run(verb, is_one=is_one)

    def reading(self) -> AbstractContextManager[Transaction]:
        """For lists and pages: a pool of its own and a statement timeout."""
        return self.deployment.database.reading()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the route table.

    Attributes:
        path: as OpenAPI writes it, `/api/runs/{id}`.
        scopes: a token needs one of these; empty means open to everyone.
        answers: status -> (model, when it is given).
        errors: what it refuses beyond what the door itself refuses.
        is_for_all: it concerns every tenant, so the token must be good for all of them.
        is_body_optional: an absent body counts as `{}`.
        longest_key: how many characters its Idempotency-Key may have; 0 where there is none to take.
        links: operation id -> where the answer has the id that it takes, e.g. `/pipelineRunId`.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    tag: str
    summary: str
    scopes: tuple[str, ...]
    answers: Mapping[int, tuple[type[BaseModel] | None, str]]
    is_for_all: bool = False
    body: type[BaseModel] | None = None
    is_body_optional: bool = False
    longest_key: int = 0
    query: type[BaseModel] | None = None
    ids: Mapping[str, PathId] = field(default_factory=dict)
    errors: tuple[type[PipeWeaveError], ...] = ()
    example: Any = None
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation_id(self) -> str:
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__}"

    @property
    def description(self) -> str:
        """The handler's docstring as paragraphs."""
        paragraphs = (self.handler.__doc__ or "").strip().split("\n\n")
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    @property
    def is_open(self) -> bool:
        return not self.scopes


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
        """Table the function below; `answer` is the model of a plain 200, `options` are Endpoint's"""

        def put(handler: Handler) -> Handler:
            given = answers or {200: (answer, "OK")}
            self.endpoints.append(
                Endpoint(method, path, handler, self.tag, summary, scopes, given, **options)
            )
            return handler

        return put
