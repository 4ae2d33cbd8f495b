"""Calls endpoints of the API from within its process, as a request would: the dashboard's pages do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from werkzeug.datastructures import Headers, MultiDict

from pipeweave.api.http import audited
from pipeweave.api.http.auth import Identity, check_gate, check_scopes
from pipeweave.api.http.body import parse_body, parse_query
from pipeweave.api.http.download import Download
from pipeweave.api.http.endpoint import Answer, Call, Endpoint
from pipeweave.api.http.ndjson import Lines
from pipeweave.errors import Forbidden, InvalidInput
from pipeweave.ids import check_name
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.security import CallerAccess

Query = Mapping[str, str | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that was made, so that a page can show it.

    Args:
        query: pairs of the address.
        body: as JSON; None: there was none.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None


@dataclass(frozen=True, slots=True)
class Caller:
    """In whose name endpoints are called.

    Args:
        peer: the address that the browser came from, if it is known.
        session_id: the browser's session, if it has one.
        request_id: of the request for the page.
    """

    access: CallerAccess
    tenant: str
    peer: str | None = None
    session_id: UUID | None = None
    request_id: str | None = None


@dataclass(slots=True)
class Inside:
    """The endpoints of one deployment.

    Args:
        endpoints: the route table.
    """

    deployment: Deployment
    endpoints: Sequence[Endpoint]
    _by_id: dict[str, Endpoint] = field(init=False)

    def __post_init__(self) -> None:
        self._by_id = {each.operation_id: each for each in self.endpoints}

    def endpoint(self, operation: str) -> Endpoint:
        """The endpoint with this operation id."""
        return self._by_id[operation]

    def has(self, operation: str) -> bool:
        """Whether there is such an endpoint."""
        return operation in self._by_id

    def may(self, caller: Caller, operation: str) -> bool:
        """Whether the caller has the rights that the endpoint asks for."""
        try:
            self._check(caller, self._by_id[operation])
        except Forbidden:
            return False
        return True

    @staticmethod
    def _check(caller: Caller, endpoint: Endpoint) -> None:
        check_scopes(caller.access, endpoint.scopes, is_for_all=endpoint.is_for_all)
        check_gate(caller.access, caller.tenant, endpoint.scopes)

    def ask(
        self,
        caller: Caller,
        operation: str,
        ids: Mapping[str, str] | None = None,
        query: Query | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> tuple[Any, RecordedCall]:
        """Call an endpoint; what it answers as JSON has it, and the request that would get the same.

        Args:
            operation: the operation id, e.g. `runs.list_runs`.
            ids: what stands in the path.
            query: parameters; those that are None or empty are left out.
            body: as JSON values; None for an endpoint without a body.
            key: the Idempotency-Key.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        answer, shown = self._called(caller, operation, ids, query, body, key)
        return _plain(answer), shown

    def fetch(
        self, caller: Caller, operation: str, ids: Mapping[str, str], query: Query | None = None
    ) -> Download:
        """Call an endpoint that answers with a stored object; see `ask`.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        answer, _ = self._called(caller, operation, ids, query)
        if not isinstance(answer, Download):
            raise InvalidInput("this endpoint does not answer with an object")
        return answer

    def lines(
        self, caller: Caller, operation: str, ids: Mapping[str, str], query: Query | None = None
    ) -> Lines:
        """Call an endpoint that answers with lines of JSON; see `ask`.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        answer, _ = self._called(caller, operation, ids, query)
        if not isinstance(answer, Lines):
            raise InvalidInput("this endpoint does not answer with lines")
        return answer

    def _called(
        self,
        caller: Caller,
        operation: str,
        ids: Mapping[str, str] | None,
        query: Query | None,
        body: Any = None,
        key: str | None = None,
    ) -> tuple[Any, RecordedCall]:
        endpoint, ids = self._by_id[operation], dict(ids or {})
        self._check(caller, endpoint)
        pairs = _pairs(query or {})
        arguments: dict[str, Any] = dict(ids)
        for name, text in ids.items():
            if endpoint.ids[name].prefix is None and not endpoint.ids[name].is_path:
                check_name(text, name)
        parsed = parse_query(MultiDict(pairs), endpoint.query)
        if parsed is not None:
            arguments["query"] = parsed
        if endpoint.body is not None:
            arguments["body"] = parse_body(orjson.dumps({} if body is None else body), endpoint.body)
        tenant = caller.tenant
        identity = Identity(caller.access, caller.session_id)
        note = audited.note_of(
            endpoint, tenant, identity, ids, arguments.get("body"), Headers(), caller.request_id
        )
        call = Call(
            self.deployment,
            tenant,
            key,
            identity=identity,
            peer=caller.peer,
            tenants=(tenant,),
            note=audited.written_by_change(note),
        )
        answer = audited.handled(self.deployment.database, note, lambda: endpoint.handler(call, **arguments))
        return answer, RecordedCall(endpoint.method, _path(endpoint, ids), pairs, body)


def _pairs(query: Query) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        values = [value] if isinstance(value, str) or value is None else value
        pairs += [(name, each) for each in values if each]
    return tuple(pairs)


def _path(endpoint: Endpoint, ids: Mapping[str, str]) -> str:
    path = endpoint.path
    for name, text in ids.items():
        path = path.replace(f"{{{name}}}", text)
    return path


def _plain(answer: Any) -> Any:
    """The answer as a client reads it."""
    value = answer.value if isinstance(answer, Answer) else answer
    content = value if isinstance(value, bytes) else orjson.dumps(value, option=orjson.OPT_UTC_Z)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        raise InvalidInput("this endpoint does not answer with JSON") from None
