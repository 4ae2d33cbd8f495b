"""Takes over what an HTTP worker has stored: its output and its files, by their content.

A worker can write to the paths of its attempt at any time, also after its report. So what the report names is
copied to where no worker writes, before a row names it; the hash is that of the copy. A small output goes
into its row, as everywhere. docs/decisions/0101-files-by-their-content.md says what a crash leaves behind.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeweave.errors import (
    CorruptValue,
    InvalidInput,
    InvalidResult,
    InvalidSetting,
    NotFound,
    ObjectTooLarge,
    Unavailable,
)
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.store import kept_objects
from pipeweave.orchestrator.store.kept_objects import READ_AT_ONCE, KeptObject
from pipeweave.orchestrator.store.values import Values, canonical
from pipeweave.size_limits import INLINE_BYTES, MAX_ASSET_BYTES, MAX_OUTPUT_BYTES
from pipeweave.storage import ObjectRef
from pipeweave.storage.base import BINARY

log = logging.getLogger(__name__)

JSON = "application/json"
# The worker may wait for its answer, so we say for it that its attempt is alive, each so often (s).
BEAT_EVERY_S = 5.0
_CONTENT_TYPES = {"json": JSON, "text": "text/plain"}


@dataclass(slots=True)
class TakenObjects:
    """Takes over the objects of one attempt. Storage is asked while nothing is locked.

    Args:
        beat: stores a heartbeat of the attempt.
        originals: paths of what was copied.
    """

    values: Values
    backend: str
    beat: Callable[[], None]
    originals: list[str] = field(default_factory=list)
    _beaten: float = field(default_factory=time.monotonic)

    def output(self, path: str) -> KeptValue:
        """The output at a path, as it is stored. Of more than READ_AT_ONCE, only the bytes are looked at.

        Raises:
            InvalidResult: it is no JSON, or too large.
            NotFound: the service did not store it.
            Unavailable, InvalidSetting: storage cannot be used.
        """
        storage = self.values.backends.get(self.backend)
        try:
            content = canonical(orjson.loads(storage.get(path, limit=READ_AT_ONCE)))
        except ObjectTooLarge:
            taken = self._taken(path, MAX_OUTPUT_BYTES, JSON, kept_objects.keep_large)
            return KeptValue(None, taken.reference, taken.size, taken.sha256)
        except NotFound:
            raise NotFound(f"the output was not stored: there is no object {path!r}", path=path) from None
        except orjson.JSONDecodeError as error:
            raise InvalidResult(f"the output is not JSON: {error}") from None
        except InvalidInput as error:
            raise InvalidResult(error.detail) from None
        digest = hashlib.sha256(content).hexdigest()
        if len(content) <= INLINE_BYTES:
            return KeptValue(content.decode(), None, len(content), digest)
        where = self.values.keep_bytes(content, self.backend, JSON)
        self.originals.append(path)
        return KeptValue(None, str(where), len(content), digest)

    def assets(self, reported: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The files of a report that was checked: key -> {path, size, type, sha256}, the path a reference.

        Raises:
            InvalidResult: one is too large.
            NotFound: the service did not store one.
            Unavailable, InvalidSetting: storage cannot be used.
        """
        return {key: self._asset(each["path"], each["type"]) for key, each in reported.items()}

    def _asset(self, path: str, type_: str) -> dict[str, Any]:
        taken = self._taken(path, MAX_ASSET_BYTES, _CONTENT_TYPES.get(type_, BINARY))
        return {"path": taken.reference, "size": taken.size, "type": type_, "sha256": taken.sha256}

    def _taken(
        self,
        path: str,
        limit: int,
        content_type: str,
        keep: Callable[..., KeptObject] = kept_objects.keep_object,
    ) -> KeptObject:
        where, more = ObjectRef(self.backend, path), {"content_type": content_type, "alive": self._alive}
        try:
            taken = keep(self.values, where, limit=limit, **more)
        except (ObjectTooLarge, CorruptValue) as error:
            raise InvalidResult(error.detail) from None
        self._alive()
        self.originals.append(path)
        return taken

    def _alive(self) -> None:
        if time.monotonic() - self._beaten > BEAT_EVERY_S:
            self._beaten = time.monotonic()
            with suppress(Unavailable):
                self.beat()

    def remove_originals(self) -> None:
        """Delete what was copied, once a row names the copies. What is left is left to the sweep."""
        storage = self.values.backends.get(self.backend)
        for place, each in enumerate(self.originals):
            try:
                storage.delete(each)
            except (Unavailable, InvalidSetting) as error:
                extra = {"reason": error.detail, "objects": len(self.originals) - place}
                log.warning("originals.left_to_the_sweep", extra=extra)
                return
