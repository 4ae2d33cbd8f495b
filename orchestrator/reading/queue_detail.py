"""The read model of one queue: beside its row of the list, what waits in it, by task and priority, and the
workers that serve it.
"""

from __future__ import annotations

from pipeweave.orchestrator.documents.queues import QueueWorker, WaitingPriority, WaitingTask
from pipeweave.orchestrator.reading.queues import MOST_COUNTED, queue
from pipeweave.orchestrator.registry.worker_processes import LOST_AFTER
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

MOST_TASKS = 20
MOST_WORKERS = 100

# The front of the queue along its index, once for both sums.
_WAITING = """
SELECT f.task_id, f.priority, count(*) AS number, min(f.queued_at) AS oldest
FROM (SELECT t.task_id, t.priority, t.queued_at FROM task_runs AS t
      WHERE t.status = 'queued' AND t.queue = :queue ORDER BY t.priority, t.queued_at LIMIT :most) AS f
GROUP BY GROUPING SETS ((f.task_id), (f.priority))
ORDER BY f.priority, count(*) DESC, f.task_id
"""

_WORKERS = """
SELECT w.id, w.name, w.concurrency, w.busy, w.heartbeat_at,
    w.drain_requested_at IS NOT NULL OR w.stopping_at IS NOT NULL AS is_draining
FROM workers AS w
WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL AND :queue = ANY(w.queues)
    AND w.heartbeat_at >= now() - CAST(:lost AS interval)
ORDER BY w.id LIMIT :most
"""


def queue_detail(tx: Transaction, tenant: str, name: str) -> Document:
    """One queue with `waiting` by task and by priority, of the first MOST_COUNTED in it, and `servedBy`.

    Raises:
        NotFound: the tenant has no such queue.
    """
    document = queue(tx, tenant, name)
    sums = tx.execute(_WAITING, {"queue": name, "most": MOST_COUNTED}).all()
    parameters = {"tenant": tenant, "queue": name, "lost": LOST_AFTER, "most": MOST_WORKERS}
    tasks = [each for each in sums if each.task_id is not None]
    return {
        **document,
        "tasks": [WaitingTask.of(each, queued=each.number) for each in tasks[:MOST_TASKS]],
        "priorities": [
            WaitingPriority.of(each, queued=each.number) for each in sums if each.priority is not None
        ],
        "servedBy": [
            QueueWorker.of(each, places=each.concurrency) for each in tx.execute(_WORKERS, parameters)
        ],
    }
