"""Stores inputs and outputs: small values in their row, larger ones in storage, addressed by content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from pipeweave.errors import CorruptValue, FieldError, InvalidInput, NotFound
from pipeweave.json_values import write_json
from pipeweave.orchestrator.domain.task_run import Kept
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Storage


class Values:
    """Stores and loads JSON values."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def keep(self, value: Any) -> Kept:
        """Store a value. A large value is durable in storage when this returns, before any row names it.

        Raises:
            InvalidInput: the value cannot be stored as JSON.
        """
        content = canonical(value)
        if len(content) <= INLINE_BYTES:
            return _inline(content)
        digest = hashlib.sha256(content).hexdigest()
        path = f"artifacts/sha256/{digest[:2]}/{digest}"
        if not self.storage.exists(path):
            self.storage.put(path, content)
        return Kept(None, path, len(content), digest)

    def load(self, inline: Any, path: str | None) -> Any:
        """Load the value of a row: the inline value, or the object at its path.

        Raises:
            NotFound: storage has no such object.
            CorruptValue: the object is not JSON.
            Unavailable: storage cannot be reached.
        """
        if path is None:
            return inline
        try:
            return orjson.loads(self.storage.get(path))
        except orjson.JSONDecodeError as error:
            raise CorruptValue(f"the stored object {path!r} is not JSON: {error}") from error

    def load_all(self, paths: Iterable[str]) -> dict[str, Any]:
        """Load values by their paths. The value of a path without a readable object is the error.

        Raises:
            Unavailable, InvalidSetting: storage cannot be reached, or refuses the settings; another try may
                load them.
        """
        return {path: self._value_or_error(path) for path in dict.fromkeys(paths)}

    def _value_or_error(self, path: str) -> Any:
        try:
            return self.load(None, path)
        except (NotFound, CorruptValue) as error:
            return error


def keep_inline(value: Any) -> Kept:
    """Keep a value of any size in its row: for values that come from a row."""
    return _inline(canonical(value))


def _inline(content: bytes) -> Kept:
    return Kept(content.decode(), None, len(content), hashlib.sha256(content).hexdigest())


def canonical(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces.

    Raises:
        InvalidInput: not JSON: other types, nested too deep, integers beyond 64 bits, NUL characters
            (PostgreSQL keeps none).
    """
    try:
        content = write_json(value, orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidInput(f"the value is not JSON: {error}", errors=[FieldError("", str(error))]) from error
    if b"\\u0000" in content and "\0" in _strings(value):
        raise InvalidInput("the value has a NUL character in a text", hint="remove \\u0000 from every text")
    return content


def _strings(value: Any) -> str:
    """All texts of a value, concatenated. Called only for the rare value that mentions \\u0000."""
    match value:
        case str():
            return value
        case dict():
            return "".join(key + _strings(each) for key, each in value.items())
        case list() | tuple():
            return "".join(map(_strings, value))
        case _:
            return ""
