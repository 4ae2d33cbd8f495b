"""Counts queued task runs by queue and task, and what the live workers of each queue can work on."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.domain import kind_sql, queue_names
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.metrics.catalogue import (
    CELERY_QUEUE_DEPTH,
    CELERY_QUEUE_SLOTS,
    QUEUE_DEPTH,
    QUEUE_OLDEST,
    UNSERVED,
    WORKER_BUSY,
    WORKER_MEMORY,
    WORKER_MEMORY_REPLACEMENTS,
    WORKER_SLOTS,
    WORKER_UPTIME,
    WORKERS,
)
from pipeweave.orchestrator.metrics.open_work import MOST_GROUPS, MOST_OF_ONE, note_cap
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.reading import worker_list, worker_uptime
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction

CRASHED, DRAINING, STALLED, RUNNING = "crashed", "draining", "stalled", "running"
MOST_WORKERS = 10_000

_QUEUED = f"""
WITH RECURSIVE {placement.WITH_WORK},
chosen AS MATERIALIZED (SELECT q.queue FROM queues AS q WHERE q.queue IS NOT NULL LIMIT :groups)
SELECT c.queue, o.tenant_id, o.task_id, count(*) AS number,
       extract(epoch FROM now() - min(o.queued_at)) AS oldest_s,
       sum(count(*)) OVER (PARTITION BY c.queue) >= :most AS is_capped
FROM chosen AS c CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.task_id, t.queued_at FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = c.queue AND {kind_sql.IS_CALLED}
    ORDER BY t.priority, t.queued_at LIMIT :most) AS o
GROUP BY c.queue, o.tenant_id, o.task_id
"""

# A worker of an older version names no queues, and a dispatcher has no service.
_WORKERS = """
SELECT w.tenant_id, w.service_id, CASE WHEN w.queues = '{}' THEN ARRAY[s.queue] ELSE w.queues END AS queues,
       w.concurrency, w.busy, w.rss_bytes, w.memory_replacements,
       w.heartbeat_at < now() - CAST(:lost AS interval) AS is_silent,
       w.drain_requested_at IS NOT NULL OR w.stopping_at IS NOT NULL AS is_draining,
       w.busy < w.concurrency
           AND coalesce(w.last_fetch_at, w.started_at) < now() - CAST(:stalled AS interval) AS is_idle
FROM workers AS w LEFT JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
WHERE w.stopped_at IS NULL LIMIT :most
"""


def read(tx: Transaction) -> Samples:
    """The queues and their workers."""
    made = Samples()
    queued: list[Any] = list(tx.execute(_QUEUED, {"groups": MOST_GROUPS, "most": MOST_OF_ONE}))
    after = worker_list.STALLED_AFTER
    waiting = {row.queue for row in queued}
    late = {row.queue for row in queued if row.oldest_s >= after.total_seconds()}
    parameters = {"lost": worker_processes.LOST_AFTER, "stalled": after, "most": MOST_WORKERS}
    served: set[str] = set()
    for worker in tx.execute(_WORKERS, parameters):
        served |= _add_worker(made, worker, late, waiting)
    for row in queued:
        _add_queued(made, row, served)
    for each in worker_uptime.uptimes(tx, None):
        made.add(WORKER_UPTIME, each.share, each.tenant, each.service_id)
    return made


def _add_worker(made: Samples, worker: Any, late: set[str], waiting: set[str]) -> set[str]:
    """Add a worker; the queues that it takes task runs from.

    Args:
        late, waiting: the queues in which task runs wait for long, or at all.
    """
    labels = worker.tenant_id, worker.service_id
    state = _state(worker, late)
    takes = state in (RUNNING, STALLED)
    made.add(WORKERS, 1, *labels, state)
    made.add(WORKER_SLOTS, worker.concurrency if takes else 0, *labels)
    made.add(WORKER_BUSY, worker.busy or 0, *labels)
    made.add(WORKER_MEMORY, worker.rss_bytes or 0, *labels)
    made.add(WORKER_MEMORY_REPLACEMENTS, worker.memory_replacements, *labels)
    if not takes:
        return set()
    # Queues that only differ in what is apart are one to those who run workers. Of all sets of a worker's
    # labels, few are ever required.
    for queue in {queue_names.plain(each) for each in worker.queues if each and _is_told(each, waiting)}:
        made.add(CELERY_QUEUE_SLOTS, worker.concurrency, worker.tenant_id, queue)
        made.add(CELERY_QUEUE_DEPTH, 0, worker.tenant_id, queue)
    return set(worker.queues)


def _is_told(queue: str, waiting: set[str]) -> bool:
    return queue in waiting or not queue_names.required_in(queue)


def _state(worker: Any, late: set[str]) -> str:
    """The state of a worker by the words of the list of workers."""
    if worker.is_silent:
        return CRASHED
    if worker.is_draining:
        return DRAINING
    return STALLED if worker.is_idle and not late.isdisjoint(worker.queues) else RUNNING


def _add_queued(made: Samples, row: Any, served: set[str]) -> None:
    labels = row.tenant_id, row.task_id
    made.add(QUEUE_DEPTH, row.number, *labels, TaskStatus.QUEUED)
    made.add(QUEUE_OLDEST, max(0.0, float(row.oldest_s)), *labels, TaskStatus.QUEUED)
    made.add(UNSERVED, 0 if row.queue in served else row.number, *labels)
    made.add(CELERY_QUEUE_DEPTH, row.number, row.tenant_id, queue_names.plain(row.queue))
    made.add(CELERY_QUEUE_SLOTS, 0, row.tenant_id, queue_names.plain(row.queue))
    note_cap(made, TaskStatus.QUEUED, row.is_capped)
