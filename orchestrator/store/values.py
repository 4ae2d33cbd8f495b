"""Stores inputs and outputs: small values in their row, larger ones in storage, addressed by content.

A row names a value in storage by a reference: the backend and the path. The tick deletes old
objects that no row names; between storing an object and writing its row, its young age keeps it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from pipeweave.errors import CorruptValue, FieldError, InvalidInput, NotFound, ObjectTooLarge, Unavailable
from pipeweave.json_values import write_json
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.upload_ids import upload_ids_in
from pipeweave.size_limits import INLINE_BYTES, INLINE_WHILE_AWAY_BYTES, MAX_OUTPUT_BYTES
from pipeweave.storage import Backends, ObjectInfo, ObjectRef, Storage, WrittenContent

# Paths of objects that are named by the SHA-256 of their content.
ARTIFACTS = "artifacts/sha256/"
# An object of this age is written again when its value is stored again: its age says when it was last needed.
REFRESH_AFTER = timedelta(hours=1)
# Between two looks at an object that the sweep is deleting (s).
DOOMED_PAUSE_S = 0.05

Write = Callable[[Storage, str], object]


class Values:
    """Stores and loads JSON values.

    Args:
        is_doomed: whether the sweep is deleting an object at this moment (store/doomed_objects.py).

    Attributes:
        backends: where large values are.
    """

    def __init__(self, backends: Backends, is_doomed: Callable[[ObjectRef], bool] | None = None) -> None:
        self.backends = backends
        self._is_doomed = is_doomed or (lambda where: False)

    def keep(self, value: Any, backend: str | None = None) -> KeptValue:
        """Store a value. A large value is durable in storage when this returns, before any row names it.

        Args:
            backend: the id of the backend for a large value; by default the default backend.

        Raises:
            InvalidInput: the value cannot be stored as JSON.
            InvalidSetting: there is no such backend, or it refuses the settings.
            Unavailable: storage cannot be reached.
        """
        content = canonical(value)
        if len(content) <= INLINE_BYTES:
            return _inline(content)
        digest = hashlib.sha256(content).hexdigest()
        where = self.keep_bytes(content, backend or self.backends.default_id, "application/json")
        return KeptValue(None, str(where), len(content), digest, upload_ids_in(content))

    def keep_bytes(self, content: bytes, backend: str, content_type: str) -> ObjectRef:
        """Store bytes by their content, whatever their size. They are durable when this returns.

        Raises:
            InvalidSetting, Unavailable: as `keep`.
        """
        written = WrittenContent(len(content), hashlib.sha256(content).hexdigest())
        return self.keep_content(
            written, backend, lambda to, path: to.put(path, content, content_type=content_type)
        )

    def keep_content(self, content: WrittenContent, backend: str, write: Write) -> ObjectRef:
        """Store content whose hash is known. It is durable when this returns.

        Args:
            write: writes this content, and no other, to a path of a storage; called twice at most, and not
                at all where the content is there.

        Raises:
            InvalidSetting, Unavailable: as `keep`. What `write` raises.
        """
        where = ObjectRef(backend, f"{ARTIFACTS}{content.sha256[:2]}/{content.sha256}")
        self._store(where, content.size, write)
        return where

    def keep_output(self, value: Any, backend: str) -> KeptValue:
        """Store what a call has returned. While storage cannot be reached, its row takes it, if it has
        INLINE_WHILE_AWAY_BYTES at most: the call is not made again for want of a place (decision 0058).

        Raises:
            InvalidInput, InvalidSetting, Unavailable: as `keep`.
        """
        try:
            return self.keep(value, backend)
        except Unavailable:
            kept = keep_inline(value)
            if kept.size > INLINE_WHILE_AWAY_BYTES:
                raise
            return kept

    def _store(self, where: ObjectRef, size: int, write: Write) -> None:
        storage = self.backends.get(where.backend)
        stored_object = storage.stat(where.path)
        if _is_kept(stored_object, size):
            return
        write(storage, where.path)
        if stored_object is None:
            return
        # The sweep may have found the object old before it was written again, and delete it now.
        while self._is_doomed(where):
            time.sleep(DOOMED_PAUSE_S)
        if storage.stat(where.path) is None:
            write(storage, where.path)

    def load(self, inline: Any, path: str | None) -> Any:
        """Load the value of a row: the inline value, or the object that its path refers to.

        Args:
            path: a reference, or a path of an older version: an object of the default backend.

        Raises:
            NotFound: storage has no such object.
            ObjectTooLarge: the object is larger than MAX_OUTPUT_BYTES.
            CorruptValue: the object is not JSON, or not the content that its path is the hash of.
            InvalidSetting: its backend is no longer there, or refuses the settings.
            Unavailable: storage cannot be reached.
        """
        if path is None:
            return inline
        storage, plain = self.backends.locate(path)
        content = storage.get(plain, limit=MAX_OUTPUT_BYTES)
        if plain.startswith(ARTIFACTS) and not plain.endswith(hashlib.sha256(content).hexdigest()):
            raise CorruptValue(f"the stored object {plain!r} has another content than was stored")
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise CorruptValue(f"the stored object {plain!r} is not JSON: {error}") from error

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
        except (NotFound, ObjectTooLarge, CorruptValue) as error:
            return error


def _is_kept(stored_object: ObjectInfo | None, size: int) -> bool:
    """Whether an object is there, complete and young."""
    if stored_object is None or stored_object.size != size:
        return False
    return abs(datetime.now(UTC) - stored_object.modified_at) < REFRESH_AFTER


# What a function without a result gives.
_NULL = KeptValue("null", None, 4, hashlib.sha256(b"null").hexdigest())


def keep_inline(value: Any) -> KeptValue:
    """Keep a value of any size in its row: for values that come from a row."""
    return _inline(canonical(value))


def _inline(content: bytes) -> KeptValue:
    if content == b"null":
        return _NULL
    digest = hashlib.sha256(content).hexdigest()
    return KeptValue(content.decode(), None, len(content), digest, upload_ids_in(content))


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
