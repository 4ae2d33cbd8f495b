"""Dispatches the task runs of HTTP services from a child process of a worker."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.dispatch import Dispatcher
from pipeweave.orchestrator.domain import CallOutcome, RunHeader, TaskRun
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.message import Work

# Dispatches that are sent together take less than this (s), or their process is killed.
DISPATCH_S = 120.0
# A process remembers the names of so many tasks of HTTP services.
MOST_REMEMBERED = 1_000


class Dispatches:
    """The dispatches of one child process, a callee. Its threads and connections begin with the first one.

    Args:
        worker: the name with which the process claims task runs.
        slot: says to the parent which dispatches are under way.
        durations: takes how long they take.

    Attributes:
        tasks: of HTTP services, as far as this process has met them.
    """

    stores = False

    def __init__(self, deployment: Deployment, worker: str, slot: Slot, durations: CallDurations) -> None:
        self._deployment = deployment
        self._worker = worker
        self._slot = slot
        self._durations = durations
        self._dispatcher: Dispatcher | None = None
        self.tasks: set[str] = set()

    def call(self, work: Work) -> bool:
        """Dispatch the first claimed task runs together, and wait until their service has taken them."""
        if (first := work.next()) is None:
            return False
        together = work.next_dispatches(first, self._slot.room)
        started = time.monotonic()
        for each in together:
            self._slot.call(each.id, started + DISPATCH_S, DISPATCH_S)
        outcomes = self._send(work.run, together)
        self._slot.returned()
        for each, outcome in zip(together, outcomes, strict=True):
            if not work.requeues(each, outcome):
                work.record(outcome)
        took = (time.monotonic() - started) / len(together)
        self._durations.record(work.run.tenant, first.task_id, took)
        return True

    def _send(self, run: RunHeader, task_runs: Sequence[TaskRun]) -> list[CallOutcome]:
        """Dispatch running task runs of one run and one task. Returns the outcome of each."""
        if self._dispatcher is None:
            mine = self._deployment
            self._dispatcher = Dispatcher(mine.database, mine.values, mine.settings, worker=self._worker)
        if len(self.tasks) < MOST_REMEMBERED:
            self.tasks.add(task_runs[0].task_id)
        return self._dispatcher.dispatch(run, task_runs)


class TakenTasks:
    """The tasks whose released steps this process takes at once: those that it has loaded, and those that it
    has dispatched before. Steps of its other tasks come by message.
    """

    def __init__(self, loaded: Collection[str], dispatched: Collection[str]) -> None:
        self._loaded = loaded
        self._dispatched = dispatched

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._loaded or task_id in self._dispatched
