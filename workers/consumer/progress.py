"""Stores the progress that tasks report: at once, or from another thread where the task must not wait."""

from __future__ import annotations

import logging
import time

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import TaskRun
from pipeweave.orchestrator.state import heartbeats
from pipeweave.orchestrator.store import Database

log = logging.getLogger(__name__)

# Progress is written at most this often (s) per attempt; the last value of a burst may be lost.
PROGRESS_EVERY_S = 0.5


class ProgressWriter:
    """Stores the progress that a task reports, at most once in PROGRESS_EVERY_S."""

    def __init__(self, database: Database, task_run: TaskRun) -> None:
        self._database = database
        self._task_run = task_run
        self._next = 0.0

    def __call__(self, percent: float, message: str | None) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + PROGRESS_EVERY_S
            self._write(percent, message)

    def _write(self, percent: float, message: str | None) -> None:
        try:
            with self._database.transaction() as tx:
                heartbeats.progress(tx, self._task_run, percent, message)
        except Unavailable as error:
            # An attempt must not fail because its progress cannot be stored.
            log.warning("progress.lost", extra={"reason": error.detail})


class LatestProgress(ProgressWriter):
    """Keeps the progress that an async task reports until another thread stores it: the event loop, in which
    other calls run, never waits for PostgreSQL.
    """

    def __init__(self, database: Database, task_run: TaskRun) -> None:
        super().__init__(database, task_run)
        self._latest: tuple[float, str | None] | None = None

    def __call__(self, percent: float, message: str | None) -> None:
        self._latest = percent, message

    def store(self) -> None:
        """Store what was reported last, if that is new."""
        if (latest := self._latest) is None:
            return
        self._latest = None
        self._write(*latest)
