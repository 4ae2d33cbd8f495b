"""Collects the limits that a transaction touched, and fills them once and last.

Rows of tasks with limits are locked after all other rows, in one order (queueing/limits.py). So verbs only
note the tasks whose live rows they changed; the caller that began the transaction fills their limits last.
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
        """Queue ready task runs as far as the limits have room. Call it last in a transaction."""
        for tenant in sorted(self._tasks):
            limits.fill(tx, tenant, self._tasks[tenant])
