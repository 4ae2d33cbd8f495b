"""Removes tasks that no worker had for as long as the setting TASK_REMOVED_AFTER_SECONDS says.

Without the setting, a task is removed only on command (`pipeweave tasks remove`).
"""

from __future__ import annotations

from datetime import timedelta

from pipeweave.errors import Conflict
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import gone_tasks
from pipeweave.orchestrator.registry.gone_tasks import GoneTask
from pipeweave.orchestrator.runs import task_removal
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation

# Tasks that one look removes at most.
BATCH = 20


def run_once(deployment: Deployment) -> int:
    """Remove what is gone for too long, if the setting says so. Returns the number of tasks.

    Raises:
        PartlyFailed: some tasks could not be removed.
    """
    after = deployment.settings.task_removed_after_seconds
    return 0 if after is None else remove_gone(deployment.database, timedelta(seconds=after))


def remove_gone(database: Database, after: timedelta) -> int:
    """Remove tasks that no worker had for this long. Returns their number.

    Raises:
        PartlyFailed: some tasks could not be removed; the others were.
    """
    with database.statements() as tx:
        tasks = gone_tasks.find(tx, after=after, most=BATCH)
    isolation = Isolation(database)
    removed = sum(
        isolation.run(
            lambda each=each: _remove(database, each, after),  # type: ignore[misc]
            tenant=each.tenant,
            task_id=each.id,
        )
        for each in tasks
    )
    return isolation.finish(removed)


def _remove(database: Database, task: GoneTask, after: timedelta) -> int:
    reason = f"no worker had it for {after.total_seconds():,.0f} s"
    try:
        database.run(lambda tx: task_removal.remove(tx, task.tenant, task.id, reason=reason))
    except Conflict:
        return 0  # a worker with it has started
    return 1
