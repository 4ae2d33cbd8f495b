"""Fills in large values of documents from storage, after the database connection was given back.

There are few readers' connections, and a download may take long: a request that kept its connection meanwhile
would make the other requests wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeweave.errors import LimitExceeded
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import MAX_LOADED_BYTES
from pipeweave.spec import run_output

# The output of a map is a list: no StoredValue is deeper. The values of users, which may be nested deep, are
# not searched.
DEPTH = 1


@dataclass(frozen=True, slots=True)
class StoredValue:
    """Stands in a document for the value at a path in storage."""

    path: str


@dataclass(frozen=True, slots=True)
class PendingOutput:
    """Stands in a document for the output of a run until its large values are loaded.

    Args:
        template: see `spec/output.py`.
        input: the run's input, which may be a StoredValue.
        steps: output by step id; an output, or an item of a map, may be a StoredValue.
        left_out: steps whose outputs are not shown.
        has_input: whether the input is shown.
    """

    template: Any
    input: Any
    steps: Mapping[str, Any]
    left_out: frozenset[str]
    has_input: bool

    def resolved(self) -> Any:
        """The output, when no StoredValue is left."""
        return run_output(
            self.template,
            input=self.input,
            steps=self.steps,
            left_out=self.left_out,
            has_input=self.has_input,
        )


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
                f"the values take more than {MAX_LOADED_BYTES:,} bytes of JSON, the limit of one request",
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
        case PendingOutput():
            steps = {name: _filled(each, values, 1) for name, each in value.steps.items()}
            return replace(value, input=_filled(value.input, values, 0), steps=steps).resolved()
        case dict() if depth > 0:
            return {name: _filled(each, values, depth - 1) for name, each in value.items()}
        case list() if depth > 0:
            return [_filled(each, values, depth - 1) for each in value]
        case _:
            return value
