"""The limits that a transaction touched, filled once and last.

Rows of tasks with limits are locked after all other rows, in one order (queueing/limits.py). So verbs only
note the tasks whose live rows they changed; whoever began the transaction fills all of them at its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.store.database import Transaction


class TouchedLimits:
    """Tasks of which a transaction released, ended or gave back task runs that have a limit."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[str]] = defaultdict(set)

    def note(self, tenant: str, task_ids: Iterable[str]) -> None:
        """Task runs of these tasks became ready, or gave up a slot."""
        self._tasks[tenant].update(task_ids)

    def of(self, tenant: str) -> set[str]:
        """The tasks of a tenant that were noted."""
        return set(self._tasks[tenant])

    def fill(self, tx: Transaction) -> None:
        """Let ready task runs go as far as the limits have room. The last thing a transaction does."""
        for tenant in sorted(self._tasks):
            limits.fill(tx, tenant, self._tasks[tenant])
