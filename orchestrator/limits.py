"""Concurrency limits of tasks: exact, across all workers.

A slot is a live row (queued, running or waiting), never a counter that could leak. Whoever changes the
number of live rows of a limited task calls `fill`, last in its transaction: the task's row is the lock, and
taking it last keeps every transaction in one lock order.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeweave.orchestrator import task_runs
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.outbox import Released

_LOCK = "SELECT concurrency FROM tasks WHERE tenant_id = :tenant AND id = :task FOR NO KEY UPDATE"

# A statement of its own after the lock: it must see what the lock's last holder committed.
_LIVE = """
SELECT count(*) FROM task_runs WHERE tenant_id = :tenant AND task_id = :task AND is_limited AND kind <> 'map'
AND status IN ('queued', 'running', 'waiting')
"""

_NEXT = """
SELECT t.run_id, t.id FROM task_runs AS t
WHERE t.tenant_id = :tenant AND t.task_id = :task AND t.status = 'ready'
ORDER BY t.priority, t.id LIMIT :free FOR UPDATE SKIP LOCKED
"""

# What a limit of 0 (none, after a change of code) lets go at once.
UNLIMITED_BATCH = 1_000


def fill(tx: Transaction, tenant: str, tasks: Iterable[str]) -> None:
    """Let ready task runs of these tasks go as far as their limits have room, best priority first, then
    oldest.
    """
    for task in sorted(set(tasks)):
        limit = tx.execute(_LOCK, {"tenant": tenant, "task": task}).scalar_one()
        free = UNLIMITED_BATCH
        if limit > 0:
            free = limit - tx.execute(_LIVE, {"tenant": tenant, "task": task}).scalar_one()
        if free <= 0:
            continue
        rows = tx.execute(_NEXT, {"tenant": tenant, "task": task, "free": free})
        picked = [(row.run_id, row.id) for row in rows]
        for each in task_runs.dispatch_ready(tx, picked):
            tx.send(
                Released(
                    each.run_id,
                    each.ordinal,
                    each.attempt,
                    each.task_id,
                    each.queue,
                    each.priority,
                    is_limited=True,
                )
            )
