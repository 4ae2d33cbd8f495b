"""Pauses and resumes tasks and whole tenants. A paused task starts no task run; running task runs continue.

A pause is a row. Every statement that releases or claims a task run looks for it (state/pause_sql.py): a task
run that is released meanwhile becomes `ready`, as if its limit had no room. `pause` moves queued task runs
back to `ready` in batches. The tick does the same for task runs that were being released at that moment.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from pipeweave.errors import Conflict
from pipeweave.orchestrator.queueing import limits, placement
from pipeweave.orchestrator.registry import task_rows, tenants, unknown_names
from pipeweave.orchestrator.state import pause_sql, releasing
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# Task runs that one transaction moves at most, and how many transactions follow each other; the tick does the
# rest.
BATCH = limits.BATCH
BATCHES = 20


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a task, or with `task_id` None of a whole tenant."""

    task_id: str | None
    paused_at: datetime
    reason: str | None


# Pausing a paused task only replaces the reason, if a new one is given.
_PAUSE = """
INSERT INTO pauses (tenant_id, task_id, reason, paused_at) VALUES (:tenant, :task, :reason, :now)
ON CONFLICT (tenant_id, task_id) DO UPDATE SET reason = coalesce(EXCLUDED.reason, pauses.reason)
RETURNING reason, paused_at
"""


def pause(tx: Transaction, tenant: str, task_id: str | None = None, *, reason: str | None = None) -> Pause:
    """Pause a task, or with None the whole tenant. A repeated pause keeps its time; its reason may change.

    Raises:
        NotFound: the tenant has no such task.
    """
    _check(tx, tenant, task_id)
    parameters = {"tenant": tenant, "task": task_id or pause_sql.ALL_TASKS, "reason": reason, "now": tx.now}
    row = tx.execute(_PAUSE, parameters).one()
    log.info("queue.paused", extra={"tenant": tenant, "task_id": task_id, "reason": row.reason})
    # After the commit, because every later release sees the pause.
    tx.afterwards(lambda after: _hold_back_all(after, BATCHES))
    return Pause(task_id, row.paused_at, row.reason)


_RESUME = "DELETE FROM pauses WHERE tenant_id = :tenant AND task_id = :task RETURNING paused_at"

_WAITING = """
SELECT k.id FROM tasks AS k
WHERE k.tenant_id = :tenant AND (k.id = :task OR :task = '') AND EXISTS (
    SELECT 1 FROM task_runs AS t
    WHERE t.tenant_id = k.tenant_id AND t.task_id = k.id AND t.status = 'ready')
"""


def resume(tx: Transaction, tenant: str, task_id: str | None = None) -> None:
    """End a pause. Ready task runs are released while limits have room, best priority first, then oldest.

    Raises:
        NotFound: the tenant has no such task.
        Conflict: it is not paused.
    """
    _check(tx, tenant, task_id)
    parameters = {"tenant": tenant, "task": task_id or pause_sql.ALL_TASKS}
    if tx.execute(_RESUME, parameters).first() is None:
        what = "the tenant" if task_id is None else f"task {task_id!r}"
        raise Conflict(f"{what} is not paused", hint="`pipeweave queue` shows what is")
    log.info("queue.resumed", extra={"tenant": tenant, "task_id": task_id})
    # In this transaction, so that a run that was idle only because of the pause is not idle after it.
    waiting = list(tx.execute(_WAITING, parameters).scalars())
    _release_all(tx, tenant, waiting, BATCHES)


def _release_all(tx: Transaction, tenant: str, tasks: list[str], batches: int) -> None:
    if limits.fill(tx, tenant, tasks) >= BATCH and batches > 1:
        tx.afterwards(lambda after: _release_all(after, tenant, tasks, batches - 1))


def _check(tx: Transaction, tenant: str, task_id: str | None) -> None:
    if task_id is None:
        tenants.ensure_tenant(tx, tenant)
    elif not task_rows.tasks(tx, tenant, [task_id]):
        raise unknown_names.not_found(tx, tenant, "task", task_id, taskId=task_id)


_FIND = (
    "SELECT p.task_id, p.paused_at, p.reason FROM pauses AS p WHERE p.tenant_id = :tenant ORDER BY p.task_id"
)


def find(tx: Transaction, tenant: str) -> list[Pause]:
    """The pauses of a tenant; the pause of the whole tenant comes first."""
    rows = tx.execute(_FIND, {"tenant": tenant})
    return [Pause(row.task_id or None, row.paused_at, row.reason) for row in rows]


# --- queued task runs -------------------------------------------------------------------------------------

# Reads only the queues of tenants with a pause: a service's queue and those whose names begin with it.
_QUEUED = f"""
WITH RECURSIVE {placement.WITH_WORK}
SELECT t.run_id, t.id FROM task_runs AS t
WHERE t.status = 'queued' AND {pause_sql.is_paused("t.tenant_id", "t.task_id")} AND t.queue = ANY(ARRAY(
    SELECT q.queue FROM queues AS q WHERE EXISTS (
        SELECT 1 FROM pauses AS p JOIN services AS s ON s.tenant_id = p.tenant_id
        WHERE q.queue = s.queue OR starts_with(q.queue, s.queue || '/')
           OR starts_with(q.queue, s.queue || '#'))))
LIMIT :batch FOR UPDATE OF t SKIP LOCKED
"""

# SQL: whether `take_back` may have anything to do.
IS_DUE = "EXISTS (SELECT 1 FROM pauses)"


def take_back(tx: Transaction) -> int:
    """Move a batch of queued task runs that are paused back to `ready`; returns how many."""
    rows = tx.execute(_QUEUED, {"batch": BATCH}).all()
    return len(releasing.hold_back(tx, [(row.run_id, row.id) for row in rows]))


def _hold_back_all(tx: Transaction, batches: int) -> None:
    if take_back(tx) == BATCH and batches > 1:
        tx.afterwards(lambda after: _hold_back_all(after, batches - 1))
