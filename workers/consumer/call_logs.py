"""Stores what a call logs and prints, in the attempt's log in storage, beside the calls of this process."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pipeweave.attempt import LoggedAttempt, StoredLogs, ToStoredLogs
from pipeweave.orchestrator.deployment import log_context
from pipeweave.orchestrator.domain import TaskRun
from pipeweave.orchestrator.store import Values
from pipeweave.workers.consumer.call_files import folder_of, run_id_of

# Lines that are left when the process ends get so many seconds to be stored.
CLOSE_WITHIN_S = 1.0


class _Place(NamedTuple):
    tenant: str
    pipeline_id: str | None
    folder: str


class CallLogs:
    """The stored logs of the calls of one process: of one after the other, or of many at once."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._stored = StoredLogs(self._store)
        # The calls under way by the identity of their task run, each with the place of its log once it logs.
        self._calling: dict[int, _Place | None] = {}

    def install(self) -> None:
        """Store from now on what calls log. Call it in their process, after its log is configured."""
        logging.root.addHandler(ToStoredLogs(self._stored, self._current))

    def begin(self, task_run: TaskRun) -> None:
        """A call begins: what its context logs from now on belongs to it."""
        self._calling[id(task_run)] = None

    def end(self, task_run: TaskRun) -> None:
        """The call has ended. It has cost nothing if it has logged nothing."""
        if (place := self._calling.pop(id(task_run), None)) is not None:
            self._stored.end(place)

    def close(self) -> None:
        """Store what is left; the process is about to end."""
        self._stored.close(CLOSE_WITHIN_S)

    def _current(self) -> LoggedAttempt | None:
        names = log_context.current()
        # A thread that an earlier call has started may still log.
        if names is None or id(names[1]) not in self._calling:
            return None
        run, task_run = names
        place = _Place(run.tenant, run.pipeline_id, folder_of(task_run))
        self._calling[id(task_run)] = place
        return LoggedAttempt(place, run_id_of(task_run))

    def _store(self, place: _Place, content: bytes) -> None:
        backends = self._values.backends
        storage = backends.get(backends.choose(place.tenant, place.pipeline_id))
        path = f"{place.folder}/logs.jsonl"
        storage.put(path, content, content_type="application/x-ndjson", is_durable=False)
