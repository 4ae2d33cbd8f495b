"""Logs that this worker handed task runs on that it cannot call: rarely, however often that happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from pipeweave.orchestrator.domain import TaskRun, queue_names

log = logging.getLogger(__name__)

# The log says so once in this time (s) for each task.
EVERY_S = 60.0


class HandedOnLog:
    """Remembers when it logged which task."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def log(self, tenant: str, task_id: str, placed: Sequence[TaskRun]) -> None:
        """Say that task runs of a task went to another worker, or wait because no live worker has the task.

        Args:
            placed: with the queues in which they go on, or wait.
        """
        if time.monotonic() < self._next.get(task_id, 0.0):
            return
        self._next[task_id] = time.monotonic() + EVERY_S
        waits = sum(queue_names.is_parking(each.queue) for each in placed)
        extra = {"tenant": tenant, "task_id": task_id, "task_runs": len(placed)}
        if waits:
            hint = "they wait: start a worker that loads the task, or `pipeweave tasks remove` it"
            log.warning("task.not_loaded", extra=extra | {"waiting": waits, "hint": hint})
        else:
            log.info("task.handed_on", extra=extra)
