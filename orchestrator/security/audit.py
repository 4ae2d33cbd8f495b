"""Writes the audit: one row for each request or command that changes something, in the change's transaction.

The row says who, which verb, which object, and what was different afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.security.object_state import Audited, state_of
from pipeweave.orchestrator.store.database import Database, Transaction, to_json

ENTRY_ID = "aud"

MAX_REASON = 1_000
# A larger body is told by its size only.
MAX_GIVEN_BYTES = 4_000
_MAX_NAME, _MAX_OBJECT = 300, 500
_MASK = "***"
_SECRET_MEMBERS = ("secret", "password", "token", "credentials")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something.

    Args:
        source: how: with a token, with a browser's session, or with a command on the database itself.
        name: of the token; for a command, `user@host`.
    """

    source: Literal["token", "session", "command"]
    name: str
    token_id: UUID | None = None
    session_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What one request or command changes.

    Args:
        verb: the operation id of the endpoint, or the command.
        kind: of the object, as its room declares it in `audited_objects`.
        tenant: None: the whole deployment.
        object: its id as the request has it; empty: all of that kind.
        body: the body of the request.
    """

    actor: Actor
    verb: str
    kind: str
    tenant: str | None = None
    object: str = ""
    body: Any = None
    reason: str | None = None
    request_id: str | None = None
    id: UUID = field(default_factory=ids.new_id)


def recorded(
    tx: Transaction, note: Note, verb: Callable[[Transaction], Result], kinds: Mapping[str, Audited]
) -> Result:
    """Run a verb and write the row, in the same transaction: both, or neither.

    A verb that changes nothing, because all was so already, has a row without differences.

    Args:
        kinds: what is told of each kind of objects: of all rooms (`deployment/audited_objects.py`), or of the
            room of this object.

    Raises:
        KeyError: no room declares the kind of the note.
    """
    audited = kinds[note.kind]
    tx.hold()
    before = state_of(tx, audited, note.tenant, note.object)
    result = verb(tx)
    after = state_of(tx, audited, note.tenant, note.object)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    write(tx, note, _only(before, changed), {**_only(after, changed), **counts_of(result)})
    return result


def begin_many(database: Database, note: Note) -> None:
    """Write the row of a verb that changes many objects in many transactions, before the first of them."""
    database.run(lambda tx: write(tx, note, {}, {}))


_END = "UPDATE audit SET after = CAST(:after AS jsonb) WHERE id = :id"


def end_many(database: Database, note: Note, after: Mapping[str, Any]) -> None:
    """Add to the row of `begin_many` how many objects were changed, or why none was."""
    database.run(lambda tx: tx.execute(_END, {"id": note.id, "after": to_json(dict(after) or None)}))


_INSERT = """
INSERT INTO audit (id, tenant_id, at, source, actor, token_id, session_id, verb, kind, object, given, before,
    after, reason, request_id)
VALUES (:id, :tenant, :now, :source, :actor, :token_id, :session_id, :verb, :kind, :object,
    CAST(:given AS jsonb), CAST(:before AS jsonb), CAST(:after AS jsonb), :reason, :request_id)
ON CONFLICT (id) DO NOTHING
"""


def write(tx: Transaction, note: Note, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Write the row of a note; a second row of the same note is left out."""
    parameters = {
        "id": note.id,
        "tenant": note.tenant,
        "now": tx.now,
        "source": note.actor.source,
        "actor": _clean(note.actor.name)[:_MAX_NAME] or "?",
        "token_id": note.actor.token_id,
        "session_id": note.actor.session_id,
        "verb": note.verb,
        "kind": note.kind,
        "object": _clean(note.object)[:_MAX_OBJECT],
        "given": to_json(_without_secrets(note.body)),
        "before": to_json(dict(before) or None),
        "after": to_json(dict(after) or None),
        "reason": _clean(note.reason or "")[:MAX_REASON] or None,
        "request_id": note.request_id,
    }
    tx.execute(_INSERT, parameters)


def counts_of(result: Any) -> dict[str, int]:
    """The numbers in a verb's result: how many objects it changed."""
    if is_dataclass(result) and not isinstance(result, type):
        result = {each.name: getattr(result, each.name) for each in fields(result)}
    if isinstance(result, int) and not isinstance(result, bool):
        return {"count": result}
    if not isinstance(result, Mapping):
        return {}
    return {
        str(name): value
        for name, value in result.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _only(state: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name in names}


def _without_secrets(body: Any) -> Any:
    if body in (None, {}):
        return None
    masked = _masked(body)
    size = len(orjson.dumps(masked, default=str))
    return masked if size <= MAX_GIVEN_BYTES else {"bytes": size}


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            _clean(str(name)): _MASK if value is not None and _is_secret(str(name)) else _masked(value)
            for name, value in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(each) for each in value]
    return _clean(value) if isinstance(value, str) else value


def _is_secret(name: str) -> bool:
    return name.lower().endswith(_SECRET_MEMBERS)


def _clean(text: str) -> str:
    """Without what PostgreSQL cannot store in a text."""
    return text.replace("\0", "").encode(errors="replace").decode()
