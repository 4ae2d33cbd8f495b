"""Puts values where HTTP workers can read them: inputs and outputs of rows, or of another backend.

They are copies: a row, or the object that it names, stays the truth. So they need not survive a power cut,
and the disk is not waited for. A worker is told the path after the copy was written. Each process remembers
for a while what it wrote: not longer, because the sweep deletes a copy when no row names its original any
more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.places import Place
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.store import kept_objects
from pipeweave.orchestrator.store.values import Values, canonical
from pipeweave.size_limits import MAX_ASSET_BYTES
from pipeweave.storage import ObjectRef, Storage
from pipeweave.storage.streams import PieceReader

# Copies that a process remembers to have written, at most.
MOST_REMEMBERED = 10_000
# How long it remembers one (s): less than the age at which a sweep may delete it (STORAGE_GRACE_HOURS).
REMEMBERED_S = 1_800.0

JSON = "application/json"


@dataclass(slots=True)
class SharedValues:
    """Writes the copies that dispatches name. Several threads may use it."""

    values: Values
    # By backend and path.
    _written: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _promotions: int = 0

    def forget_before(self, promotions: int) -> None:
        """After a promotion of PostgreSQL write every copy again: steps whose ends it lost are done again,
        and their outputs may be others.

        Args:
            promotions: how many are known now.
        """
        with self._lock:
            if promotions > self._promotions:
                self._promotions = promotions
                self._written.clear()

    def input_of(self, run: RunHeader, backend: str) -> str:
        """The path of a run's input in a backend."""
        folder = "standalone" if run.pipeline_id is None else "pipelines"
        path = f"{folder}/{ids.show(ids.RUN, run.id)}/input.json"
        return self._shared(backend, path, (run.input, run.input_path))

    def outputs_of(
        self, run_id: UUID, places: Mapping[str, Place | list[Place]], backend: str
    ) -> dict[str, str]:
        """The paths of completed steps' outputs in a backend, by step."""
        folder = f"pipelines/{ids.show(ids.RUN, run_id)}/outputs"
        paths = {step_id: f"{folder}/{step_id}.json" for step_id in places}
        new = self._not_written(backend, paths.values())
        return {
            step_id: self._shared(backend, path, places[step_id]) if path in new else path
            for step_id, path in paths.items()
        }

    def own_input(self, dispatch_id: str, value: Any, backend: str) -> str:
        """Write the input of one attempt; returns its path."""
        path = f"runs/{dispatch_id}/input.json"
        _put(self.values.backends.get(backend), path, canonical(value))
        return path

    def path_of(self, reference: str, backend: str) -> str:
        """The path in a backend of an object that another row names: it is copied if it is elsewhere.

        Raises:
            CorruptValue: it lies by its content, and is other content; nothing was copied.
        """
        ref = ObjectRef.parse(reference, self.values.backends.default_id)
        if ref.backend != backend:
            self._once(backend, ref.path, lambda to: self._copy(ref, to))
        return ref.path

    def _copy(self, ref: ObjectRef, to: Storage) -> None:
        with kept_objects.opened(self.values, str(ref)) as pieces:
            to.put_stream(ref.path, PieceReader(pieces), limit=MAX_ASSET_BYTES, content_type=JSON)

    def _shared(self, backend: str, path: str, place: Place | list[Place]) -> str:
        if isinstance(place, tuple) and place[1] is not None:
            return self.path_of(place[1], backend)
        self._once(backend, path, lambda to: _put(to, path, canonical(self._value(place))))
        return path

    def _value(self, place: Place | list[Place]) -> Any:
        if isinstance(place, list):
            return [self.values.load(*each) for each in place]
        return place[0]

    def _once(self, backend: str, path: str, write: Callable[[Storage], None]) -> None:
        if not self._not_written(backend, (path,)):
            return
        until = time.monotonic() + REMEMBERED_S
        write(self.values.backends.get(backend))
        with self._lock:
            self._written[backend, path] = until
            if len(self._written) > MOST_REMEMBERED:
                self._written.popitem(last=False)

    def _not_written(self, backend: str, paths: Iterable[str]) -> set[str]:
        """Those of the paths that were not written lately; the others are remembered longest from now on."""
        new = set()
        with self._lock:
            now, written = time.monotonic(), self._written
            for path in paths:
                if written.get((backend, path), 0.0) > now:
                    written.move_to_end((backend, path))
                else:
                    new.add(path)
        return new


def _put(to: Storage, path: str, content: bytes) -> None:
    to.put(path, content, content_type=JSON, is_durable=False)
