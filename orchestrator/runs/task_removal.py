"""Removes a task for good, on command or because no worker had it for a stated time.

Its task runs that have not started are cancelled with code TASK_REMOVED, and nothing new is accepted for it.
A worker that loads the task later registers it anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.errors import Conflict
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.registry import loaded_tasks, services, unknown_names
from pipeweave.orchestrator.runs import orphans
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemovedTask:
    """A task that was removed, and how many of its task runs were cancelled."""

    task_id: str
    removed_at: datetime
    cancelled: int


_TASK = f"""
SELECT t.orphaned_at, {loaded_tasks.is_loaded_sql("t.tenant_id", "t.service_id", "t.id")} AS is_loaded
FROM tasks AS t WHERE t.tenant_id = :tenant AND t.id = :task
"""


def remove(tx: Transaction, tenant: str, task_id: str, *, reason: str | None = None) -> RemovedTask:
    """Remove a task that no live worker has. A repeated call cancels what was triggered in the meantime.

    Args:
        reason: stands in the error of the cancelled task runs.

    Raises:
        NotFound: the tenant has no such task.
        Conflict: a live worker has it.
    """
    # A worker that registers the task waits for this transaction, or is seen by it.
    advisory_locks.hold_tenant_until_commit(tx, advisory_locks.REGISTRATION, tenant)
    task: Any = tx.execute(_TASK, {"tenant": tenant, "task": task_id}).one_or_none()
    if task is None:
        raise unknown_names.not_found(tx, tenant, "task", task_id, taskId=task_id)
    if task.is_loaded:
        raise Conflict(
            f"a live worker has task {task_id!r}",
            hint="`pipeweave deploys` shows which; stop those workers first",
            taskId=task_id,
        )
    touched = TouchedLimits()
    message = f"task {task_id!r} was removed" + (f": {reason}" if reason else "")
    cancelled = orphans.cancel_unstarted(tx, tenant, [task_id], message, touched)
    services.lock_tasks(tx, tenant, touched.of(tenant) | {task_id})
    if task.orphaned_at is None:
        services.mark_orphaned(tx, tenant, [task_id])
    touched.fill(tx)
    log.warning(
        "task.removed",
        extra={"tenant": tenant, "task_id": task_id, "cancelled": cancelled, "reason": reason},
    )
    return RemovedTask(task_id, task.orphaned_at or tx.now, cancelled)
