"""Fills in large values of documents from storage, after the database connection was given back.

There are few readers' connections, and a download may take long: a request that kept its connection meanwhile
would make the other requests wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.errors import LimitExceeded
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import MAX_LOADED_BYTES

# A run's `output` is an object of steps, and the output of a map is a list: no StoredValue is deeper. The
# values of users, which may be nested deep, are not searched.
DEPTH = 2


@dataclass(frozen=True, slots=True)
class StoredValue:
    """Stands in a document for the value at a path in storage."""

    path: str


class Loading:
    """Whether one document has its large values, and how much that is.

    Its methods raise LimitExceeded as soon as that is more than MAX_LOADED_BYTES, before anything is fetched.

    Args:
        is_wanted: whether the document has large values.

    Attributes:
        bytes: what was counted so far, as JSON.
    """

    def __init__(self, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self.bytes = 0

    def value_of(self, inline: Any, path: str | None, size: int | None) -> Any:
        """What the document holds of a row's value: the inline value, or a StoredValue if it is wanted."""
        if not self.is_wanted:
            return inline
        self.add(size or 0)
        return inline if path is None else StoredValue(path)

    def add(self, size: int) -> None:
        """Count values of so many bytes."""
        self.bytes += size
        if self.is_wanted and self.bytes > MAX_LOADED_BYTES:
            raise LimitExceeded(
                f"the values take more than {MAX_LOADED_BYTES:,} bytes of JSON: one request loads no more",
                hint="without load=true the answer says where they are; load task runs one by one",
                limit=MAX_LOADED_BYTES,
            )


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
