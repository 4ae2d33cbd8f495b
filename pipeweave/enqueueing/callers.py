"""Tell what kind of connection a caller has, without importing its driver.

The class of an object says which package it is of, and that package is imported already.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.json_values import kind_of

EXPECTED = (
    "a psycopg2 or psycopg connection or cursor, or a SQLAlchemy Connection or Session; their asynchronous"
    " forms with enqueue_async"
)


class ConnectionKind(Enum):
    """The kinds of connections that statements are sent over."""

    PSYCOPG2 = "psycopg2"
    PSYCOPG = "psycopg"
    SQLALCHEMY = "sqlalchemy"
    PSYCOPG_ASYNC = "psycopg, asynchronous"
    SQLALCHEMY_ASYNC = "sqlalchemy, asynchronous"


ASYNCHRONOUS = frozenset({ConnectionKind.PSYCOPG_ASYNC, ConnectionKind.SQLALCHEMY_ASYNC})

# By package and class, also of a subclass.
_KINDS = {
    ("psycopg2", "connection"): ConnectionKind.PSYCOPG2,
    ("psycopg", "Connection"): ConnectionKind.PSYCOPG,
    ("psycopg", "AsyncConnection"): ConnectionKind.PSYCOPG_ASYNC,
    ("sqlalchemy", "Connection"): ConnectionKind.SQLALCHEMY,
    ("sqlalchemy", "AsyncConnection"): ConnectionKind.SQLALCHEMY_ASYNC,
}
# What has a connection: its attribute, or its method where the name ends with ().
_HOLDERS = {
    ("psycopg2", "cursor"): "connection",
    ("psycopg", "BaseCursor"): "connection",
    ("sqlalchemy", "Session"): "connection()",
    ("sqlalchemy", "scoped_session"): "connection()",
    ("sqlalchemy", "AsyncSession"): "connection()",
    ("sqlalchemy", "async_scoped_session"): "connection()",
    ("sqlalchemy", "PoolProxiedConnection"): "dbapi_connection",
}


def holder_of(source: Any) -> tuple[Any, bool] | None:
    """What leads from an object to its connection: the value of an attribute, and whether it is a method that
    gives the connection; None for what leads to none.
    """
    for name in _names(source):
        if (attribute := _HOLDERS.get(name)) is not None:
            return getattr(source, attribute.removesuffix("()")), attribute.endswith("()")
    return None


def kind(connection: Any) -> ConnectionKind:
    """The kind of a connection.

    Raises:
        InvalidInput: it is none.
    """
    driver = next((_KINDS[name] for name in _names(connection) if name in _KINDS), None)
    if driver is None or (driver is ConnectionKind.PSYCOPG2 and connection.async_):
        raise refused(f"is {kind_of(connection)}")
    dialect = (
        connection.dialect.name
        if driver in (ConnectionKind.SQLALCHEMY, ConnectionKind.SQLALCHEMY_ASYNC)
        else "postgresql"
    )
    if dialect != "postgresql":
        raise refused(f"is to {dialect}, and not to the PostgreSQL that PipeWeave uses")
    return driver


def refused(message: str) -> InvalidInput:
    """The error for a connection that cannot be used."""
    wrong = FieldError("connection", message, "invalid_type", EXPECTED)
    return InvalidInput(wrong.sentence(), errors=[wrong])


def module(name: str) -> Any:
    """A module of the caller's driver, which is imported already."""
    return sys.modules[name]


def _names(instance: Any) -> list[tuple[str, str]]:
    return [(each.__module__.partition(".")[0], each.__name__) for each in type(instance).__mro__]
