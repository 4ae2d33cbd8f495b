"""Pauses: nothing of a task, or of a whole tenant, starts until it is resumed. What runs goes on to its end.

A pause is a row, and every statement that lets a task run go, or claims one, looks for it (task_runs.HELD).
What is to go meanwhile becomes `ready`, as if its limit had no room. What was queued before is taken back
here; of what was being let go at that very moment, the tick takes back the rest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.registry import task_rows, tenants
from pipeweave.orchestrator.state import pause_sql, releasing
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# One transaction takes back, or lets go, at most so many; so many follow it at once, the tick does the rest.
BATCH = limits.BATCH
BATCHES = 20


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused what: `task_id` None is the whole tenant."""

    task_id: str | None
    paused_at: datetime
    reason: str | None


# Pausing again changes at most the reason.
_PAUSE = """
INSERT INTO pauses (tenant_id, task_id, reason, paused_at) VALUES (:tenant, :task, :reason, :now)
ON CONFLICT (tenant_id, task_id) DO UPDATE SET reason = coalesce(EXCLUDED.reason, pauses.reason)
RETURNING reason, paused_at
"""


def pause(tx: Transaction, tenant: str, task_id: str | None = None, *, reason: str | None = None) -> Pause:
    """Let nothing of a task start, or with None nothing of the tenant. Once more, it may give a new reason.

    Raises:
        NotFound: the tenant has no such task.
    """
    _check(tx, tenant, task_id)
    parameters = {"tenant": tenant, "task": task_id or pause_sql.ALL_TASKS, "reason": reason, "now": tx.now}
    row = tx.execute(_PAUSE, parameters).one()
    log.info("queue.paused", extra={"tenant": tenant, "task_id": task_id, "reason": row.reason})
    # After the commit: whatever is let go from then on sees the pause.
    tx.afterwards(lambda after: _take_all_back(after, BATCHES))
    return Pause(task_id, row.paused_at, row.reason)


_RESUME = "DELETE FROM pauses WHERE tenant_id = :tenant AND task_id = :task RETURNING paused_at"

_WAITING = """
SELECT k.id FROM tasks AS k
WHERE k.tenant_id = :tenant AND (k.id = :task OR :task = '') AND EXISTS (
    SELECT 1 FROM task_runs AS t
    WHERE t.tenant_id = k.tenant_id AND t.task_id = k.id AND t.status = 'ready')
"""


def resume(tx: Transaction, tenant: str, task_id: str | None = None) -> None:
    """End a pause: what waited goes, best priority first, then oldest, as far as limits have room.

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
    # In this transaction, so that a run that is idle only because of the pause is not idle after it.
    waiting = list(tx.execute(_WAITING, parameters).scalars())
    _let_go(tx, tenant, waiting, BATCHES)


def _let_go(tx: Transaction, tenant: str, tasks: list[str], batches: int) -> None:
    if limits.fill(tx, tenant, tasks) >= BATCH and batches > 1:
        tx.afterwards(lambda after: _let_go(after, tenant, tasks, batches - 1))


def _check(tx: Transaction, tenant: str, task_id: str | None) -> None:
    if task_id is None:
        tenants.ensure_tenant(tx, tenant)
    elif not task_rows.tasks(tx, tenant, [task_id]):
        raise NotFound(f"there is no task {task_id[:200]!r}", taskId=task_id)


_FIND = (
    "SELECT p.task_id, p.paused_at, p.reason FROM pauses AS p WHERE p.tenant_id = :tenant ORDER BY p.task_id"
)


def find(tx: Transaction, tenant: str) -> list[Pause]:
    """The pauses of a tenant, that of all its tasks first."""
    rows = tx.execute(_FIND, {"tenant": tenant})
    return [Pause(row.task_id or None, row.paused_at, row.reason) for row in rows]


# --- what was queued before -------------------------------------------------------------------------------

# Only the queues of tenants that paused something are looked at; without a pause, none.
_QUEUED = f"""
SELECT t.run_id, t.id FROM task_runs AS t
WHERE t.status = 'queued' AND {pause_sql.IS_PAUSED} AND t.queue = ANY(ARRAY(
    SELECT s.queue FROM services AS s JOIN pauses AS p ON p.tenant_id = s.tenant_id))
LIMIT :batch FOR UPDATE OF t SKIP LOCKED
"""


def take_back(tx: Transaction) -> int:
    """Take back a batch of what is queued and paused. How many there were."""
    rows = tx.execute(_QUEUED, {"batch": BATCH}).all()
    return len(releasing.hold_back(tx, [(row.run_id, row.id) for row in rows]))


def _take_all_back(tx: Transaction, batches: int) -> None:
    if take_back(tx) == BATCH and batches > 1:
        tx.afterwards(lambda after: _take_all_back(after, batches - 1))
