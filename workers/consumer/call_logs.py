"""Stores what a call logs and prints, in the attempt's log in storage, beside the calls of this process."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pipeweave.attempt import Logged, StoredLogs, ToStoredLogs
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
    """The stored logs of the calls of one process; the calls follow each other."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._stored = StoredLogs(self._store)
        self._calling: TaskRun | None = None
        self._place: _Place | None = None

    def install(self) -> None:
        """Store from now on what calls log. Call it in their process, after its log is configured."""
        logging.root.addHandler(ToStoredLogs(self._stored, self._current))

    def begin(self, task_run: TaskRun) -> None:
        """A call begins: what its context logs from now on belongs to it."""
        self._calling = task_run

    def end(self) -> None:
        """The call has ended. It has cost nothing if it has logged nothing."""
        self._calling = None
        if self._place is not None:
            self._stored.end(self._place)
            self._place = None

    def close(self) -> None:
        """Store what is left; the process is about to end."""
        self._stored.close(CLOSE_WITHIN_S)

    def _current(self) -> Logged | None:
        names = log_context.current()
        # A thread that an earlier call has started may still log.
        if names is None or (calling := self._calling) is None or names[1] is not calling:
            return None
        run, task_run = names
        place = self._place = _Place(run.tenant, run.pipeline_id, folder_of(task_run))
        return Logged(place, run_id_of(task_run))

    def _store(self, place: _Place, content: bytes) -> None:
        backends = self._values.backends
        storage = backends.get(backends.choose(place.tenant, place.pipeline_id))
        path = f"{place.folder}/logs.jsonl"
        storage.put(path, content, content_type="application/x-ndjson", is_durable=False)
