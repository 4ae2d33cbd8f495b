"""Counts queued task runs by queue and task, and what the live workers of each queue can work on."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.metrics.catalogue import (
    CELERY_QUEUE_DEPTH,
    CELERY_QUEUE_SLOTS,
    QUEUE_DEPTH,
    QUEUE_OLDEST,
    UNSERVED,
    WORKER_SLOTS,
    WORKERS,
)
from pipeweave.orchestrator.metrics.open_work import MOST_GROUPS, MOST_OF_ONE, note_cap
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction

STALLED, STOPPING, RUNNING = "stalled", "stopping", "running"
MOST_WORKERS = 10_000

_WORKERS = f"""
SELECT w.tenant_id, w.service_id, w.queues, s.queue, w.state, count(*) AS number, sum(w.concurrency) AS slots
FROM (SELECT w.tenant_id, w.service_id, w.queues, w.concurrency,
             CASE WHEN w.heartbeat_at < now() - CAST(:after AS interval) THEN '{STALLED}'
                  WHEN w.stopping_at IS NOT NULL THEN '{STOPPING}' ELSE '{RUNNING}' END AS state
      FROM workers AS w WHERE w.stopped_at IS NULL LIMIT :most_workers) AS w
LEFT JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
GROUP BY w.tenant_id, w.service_id, w.queues, s.queue, w.state
"""

_QUEUED = f"""
WITH RECURSIVE {placement.WITH_WORK},
chosen AS MATERIALIZED (SELECT q.queue FROM queues AS q WHERE q.queue IS NOT NULL LIMIT :groups)
SELECT s.queue, o.tenant_id, o.task_id, count(*) AS number,
       extract(epoch FROM now() - min(o.queued_at)) AS oldest_s,
       sum(count(*)) OVER (PARTITION BY s.queue) >= :most AS is_capped
FROM chosen AS s CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.task_id, t.queued_at FROM task_runs AS t
    WHERE t.status = 'queued' AND t.queue = s.queue AND t.kind <> 'map'
    ORDER BY t.priority, t.queued_at LIMIT :most) AS o
GROUP BY s.queue, o.tenant_id, o.task_id
"""


def read(tx: Transaction) -> Samples:
    """The queues and their workers."""
    made = Samples()
    served = _workers(tx, made)
    for row in tx.execute(_QUEUED, {"groups": MOST_GROUPS, "most": MOST_OF_ONE}):
        _queued(made, row, served)
    return made


def _workers(tx: Transaction, made: Samples) -> set[str]:
    """Add the workers; the queues that live ones consume."""
    served: set[str] = set()
    given = {"after": worker_processes.LOST_AFTER, "most_workers": MOST_WORKERS}
    for row in tx.execute(_WORKERS, given):
        made.add(WORKERS, row.number, row.tenant_id, row.service_id, row.state)
        made.add(WORKER_SLOTS, row.slots if row.state == RUNNING else 0, row.tenant_id, row.service_id)
        # A worker of an older version names no queues, and a dispatcher has no service.
        queues = set(row.queues or ([] if row.queue is None else [row.queue]))
        if row.state == RUNNING:
            served |= queues
            # Queues that only differ in what is apart are one to those who run workers.
            for queue in {queue_names.plain(each) for each in queues}:
                made.add(CELERY_QUEUE_SLOTS, row.slots, row.tenant_id, queue)
                made.add(CELERY_QUEUE_DEPTH, 0, row.tenant_id, queue)
    return served


def _queued(made: Samples, row: Any, served: set[str]) -> None:
    labels = row.tenant_id, row.task_id
    made.add(QUEUE_DEPTH, row.number, *labels, TaskStatus.QUEUED)
    made.add(QUEUE_OLDEST, max(0.0, float(row.oldest_s)), *labels, TaskStatus.QUEUED)
    made.add(UNSERVED, 0 if row.queue in served else row.number, *labels)
    made.add(CELERY_QUEUE_DEPTH, row.number, row.tenant_id, queue_names.plain(row.queue))
    made.add(CELERY_QUEUE_SLOTS, 0, row.tenant_id, queue_names.plain(row.queue))
    note_cap(made, TaskStatus.QUEUED, row.is_capped)
