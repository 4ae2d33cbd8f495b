"""Remember over which connections runs may be enqueued, so that it is asked once for each of them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pipeweave.enqueueing.callers import ConnectionKind
from pipeweave.errors import Forbidden, PipeWeaveError, SchemaOutdated

_BY_CONNECTION: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
# In the `info` of SQLAlchemy, which lives as long as the driver's connection.
_KEY = "pipeweave.enqueue"


def schemas(connection: Any, kind: ConnectionKind) -> set[str]:
    """The schemas that a connection was checked for; a set to be added to."""
    if kind is ConnectionKind.SQLALCHEMY:
        known: set[str] = connection.info.setdefault(_KEY, set())
        return known
    if kind is ConnectionKind.SQLALCHEMY_ASYNC:
        return schemas(connection.sync_connection, ConnectionKind.SQLALCHEMY)
    return _BY_CONNECTION.setdefault(connection, set())


def check(answer: Any, schema: str) -> None:
    """Judge the answer to the statement CHECK.

    Raises:
        SchemaOutdated: the table is not there.
        Forbidden: the connection's role may not INSERT into it.
    """
    if not answer or not answer[0][0]:
        raise _refusal(schema, is_there=bool(answer))


def _refusal(schema: str, *, is_there: bool) -> PipeWeaveError:
    if is_there:
        return Forbidden(
            f"the role of this connection may not INSERT into {schema}.enqueued_runs",
            hint="grant it USAGE on the schema and INSERT on the columns that docs/enqueue.md lists",
        )
    return SchemaOutdated(
        f"this database has no table {schema}.enqueued_runs",
        hint="if it is PipeWeave's own, run `pipeweave db migrate`; if it is another one, use the outbox of"
        " docs/enqueue.md",
    )
