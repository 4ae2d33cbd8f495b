"""Dispatches the task runs of HTTP services from a child process of a worker."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.dispatch import Dispatcher
from pipeweave.orchestrator.domain import CallOutcome, RunHeader, TaskRun

# A process remembers the names of so many tasks of HTTP services.
MOST_REMEMBERED = 1_000


class Dispatches:
    """The dispatches of one child process. Its threads and connections begin with the first dispatch.

    Args:
        worker: the name with which the process claims task runs.

    Attributes:
        tasks: of HTTP services, as far as this process has met them.
    """

    def __init__(self, deployment: Deployment, worker: str) -> None:
        self._deployment = deployment
        self._worker = worker
        self._dispatcher: Dispatcher | None = None
        self.tasks: set[str] = set()

    def send(self, run: RunHeader, task_runs: Sequence[TaskRun]) -> list[CallOutcome]:
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
