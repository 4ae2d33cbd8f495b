"""Fills in large values of documents from storage, after the database connection was given back.

There are few readers' connections, and a download may take long: a request that kept its connection meanwhile
would make the other requests wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.store.values import Values

# A run's `output` is an object of steps, and the output of a map is a list: no StoredValue is deeper. The
# values of users, which may be nested deep, are not searched.
DEPTH = 2


@dataclass(frozen=True, slots=True)
class StoredValue:
    """Stands in a document for the value at a path in storage."""

    path: str


def value_of(inline: Any, path: str | None, *, load: bool) -> Any:
    """What a document holds of a row's value: the inline value, or a StoredValue if it is to be loaded."""
    return StoredValue(path) if load and path is not None else inline


def load_values(document: Document, values: Values) -> Document:
    """Replace each StoredValue of a document. Reads storage, so call it without a connection.

    Raises:
        NotFound: a value is no longer in storage.
        CorruptValue: a value in storage is not JSON.
        Unavailable: storage cannot be reached.
    """
    return {name: _filled(value, values, DEPTH) for name, value in document.items()}


def _filled(value: Any, values: Values, depth: int) -> Any:
    match value:
        case StoredValue():
            return values.load(None, value.path)
        case dict() if depth > 0:
            return {name: _filled(each, values, depth - 1) for name, each in value.items()}
        case list() if depth > 0:
            return [_filled(each, values, depth - 1) for each in value]
        case _:
            return value
