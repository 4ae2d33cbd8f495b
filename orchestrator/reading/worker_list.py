"""Read models of workers: Celery's worker processes and the instances of HTTP services, in one list.

Workers that ended are listed for a week only, so the list does not grow with history. What a worker
says of its load came with its last heartbeat; nothing is counted here that could be long.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pipeweave.orchestrator.documents.workers import RunningTaskRun, Worker, WorkerDetail
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.reading.lost_attempts import lost_attempts
from pipeweave.orchestrator.registry import drains, instances
from pipeweave.orchestrator.registry.worker_processes import LOST_AFTER
from pipeweave.orchestrator.state.pause_sql import is_paused
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

STATES = ("running", "stalled", "draining", "stopped", "crashed")
"""What a worker may be; `crashed` fell silent and did not sign off."""

STALLED_AFTER = timedelta(seconds=30)
"""A worker with free places is stalled when work has waited for so long in one of its queues."""

# What ended is listed for so long. Its row is kept for longer, for worker_uptime.
LISTED = timedelta(days=7)

# Of one worker so many task runs and so many tasks are shown.
MOST_SHOWN = 100

# The front of each queue that a live worker of the tenant serves: one look into the index for each queue.
_FRONTS = f"""
served AS (
    SELECT DISTINCT q.queue FROM workers AS w CROSS JOIN LATERAL unnest(w.queues) AS q(queue)
    WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL
), fronts AS MATERIALIZED (
    SELECT s.queue FROM served AS s CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.task_id, t.queued_at FROM task_runs AS t
        WHERE t.status = 'queued' AND t.queue = s.queue ORDER BY t.priority, t.queued_at LIMIT 1) AS f
    WHERE f.queued_at < now() - CAST(:stalled AS interval) AND NOT {is_paused("f.tenant_id", "f.task_id")}
)"""

_STATE = """
CASE WHEN w.lost_at IS NOT NULL THEN 'crashed'
    WHEN w.stopped_at IS NOT NULL THEN 'stopped'
    WHEN w.heartbeat_at < now() - CAST(:lost AS interval) THEN 'crashed'
    WHEN w.drain_requested_at IS NOT NULL OR w.stopping_at IS NOT NULL THEN 'draining'
    WHEN w.busy < w.concurrency
        AND coalesce(w.last_fetch_at, w.started_at) < now() - CAST(:stalled AS interval)
        AND EXISTS (SELECT 1 FROM fronts AS f WHERE f.queue = ANY(w.queues)) THEN 'stalled'
    ELSE 'running' END"""

# Those that ended stand behind all that live, the last first: `place` is smaller the later it was.
_ALL = f"""
WITH {_FRONTS}, found AS (
    SELECT w.id, 'celery' AS kind, w.service_id, w.name, w.hostname, w.pid, w.version, w.labels,
        ARRAY(SELECT q FROM unnest(w.queues) AS q WHERE NOT {queue_names.has_labels_sql("q")}) AS queues,
        w.concurrency, w.task_count, w.busy, w.started_at, w.heartbeat_at, w.stopped_at, w.lost_at,
        w.last_fetch_at, w.rss_bytes, w.memory_replacements, w.cpu_percent, w.starts_last_hour,
        w.drain_requested_at,
        w.drain_reason, w.stopping_at,
        NULL AS base_url, NULL AS last_error, {_STATE} AS state,
        CASE WHEN w.stopped_at IS NULL THEN 0
            ELSE 4000000000000000 - CAST(extract(epoch FROM w.stopped_at) * 1e6 AS bigint) END AS place
    FROM workers AS w WHERE w.tenant_id = :tenant
        AND (w.stopped_at IS NULL OR w.stopped_at > now() - CAST(:listed AS interval))
    UNION ALL
    SELECT {drains.INSTANCE_ID}, 'http', i.service_id, i.base_url, NULL, NULL, i.version, '{{}}', '{{}}',
        NULL, cardinality(i.tasks), NULL, i.registered_at, i.last_seen_at, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, i.drain_requested_at, i.drain_reason, NULL,
        i.base_url, i.last_error,
        CASE WHEN i.drain_requested_at IS NOT NULL OR s.disabled_at IS NOT NULL THEN 'draining'
            WHEN {instances.IS_SILENT} THEN 'crashed'
            WHEN i.set_aside_at IS NOT NULL THEN 'stalled' ELSE 'running' END, 0
    FROM service_instances AS i JOIN services AS s ON s.tenant_id = i.tenant_id AND s.id = i.service_id
    WHERE i.tenant_id = :tenant
)
"""

_PAGE = f"""{_ALL}
SELECT f.* FROM found AS f
WHERE (CAST(:state AS text) IS NULL OR f.state = :state)
    AND (CAST(:service AS text) IS NULL OR f.service_id = :service)
    AND (f.place, f.id) > (:after_place, :after_id)
ORDER BY f.place, f.id LIMIT :limit
"""


def workers(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    *,
    state: str | None = None,
    service_id: str | None = None,
) -> Document:
    """The tenant's workers, those that live first, by id, then those that ended last: {items, nextCursor}.

    Args:
        state: one of STATES; None for all of them.
        service_id: only the workers of this service.
    """
    after = page.after("workers", int, str) or (-1, "")
    parameters = {
        **_common(tenant),
        "state": state,
        "service": service_id,
        "after_place": after[0],
        "after_id": after[1],
        "limit": page.limit + 1,
    }
    rows = tx.execute(_PAGE, parameters).all()
    return page.cut(rows, "workers", lambda row: (int(row.place), row.id), lambda row: _worker(row, tx.now))


_COUNTS = f"""{_ALL}
SELECT f.state, count(*) AS number FROM found AS f GROUP BY f.state
"""


def worker_counts(tx: Transaction, tenant: str) -> Document:
    """How many of the tenant's workers are in each of STATES."""
    counts = {row.state: row.number for row in tx.execute(_COUNTS, _common(tenant))}
    return {state: counts.get(state, 0) for state in STATES}


_ONE = f"{_ALL} SELECT f.* FROM found AS f WHERE f.id = :id"


def worker(tx: Transaction, tenant: str, worker_id: str) -> Document:
    """One worker, with the tasks that it has loaded, the task runs that it runs now, and the attempts that
    were lost with it, MOST_SHOWN of each.

    Raises:
        NotFound: the tenant has no such worker.
    """
    row: Any = tx.execute(_ONE, {**_common(tenant), "id": worker_id}).one_or_none()
    if row is None:
        raise drains.not_found(worker_id)
    return _worker(
        row,
        tx.now,
        WorkerDetail,
        tasks=_tasks(tx, tenant, row),
        task_runs=_running(tx, tenant, row),
        lost_attempts=lost_attempts(tx, tenant, _name(row), is_celery=row.kind == "celery", most=MOST_SHOWN),
    )


def _name(row: Any) -> str:
    """What task runs and attempts call it, but for the children of a Celery worker."""
    return row.id if row.kind == "celery" else f"{row.service_id} {row.base_url}"


_TASKS = """
SELECT h.task_id FROM worker_tasks AS h WHERE h.worker_id = :id ORDER BY h.task_id LIMIT :most
"""
_TASKS_OF_INSTANCE = """
SELECT unnest(i.tasks) AS task_id FROM service_instances AS i
WHERE i.tenant_id = :tenant AND i.service_id = :service AND i.base_url = :url ORDER BY 1 LIMIT :most
"""


def _tasks(tx: Transaction, tenant: str, row: Any) -> list[str]:
    if row.kind == "http":
        parameters = {"tenant": tenant, "service": row.service_id, "url": row.base_url, "most": MOST_SHOWN}
        return list(tx.execute(_TASKS_OF_INSTANCE, parameters).scalars())
    return list(tx.execute(_TASKS, {"id": row.id, "most": MOST_SHOWN}).scalars())


# What runs is in an index of its own, which is as long as there are places for it.
_RUNNING = """
SELECT t.id, t.run_id, t.task_id, t.step_id, t.map_index, t.attempt, t.started_at, t.progress,
    t.progress_message, (SELECT r.pipeline_id FROM runs AS r WHERE r.id = t.run_id) AS pipeline_id
FROM task_runs AS t
WHERE t.status = 'running' AND t.tenant_id = :tenant AND {where}
ORDER BY t.started_at LIMIT :most
"""
# The children of a worker claim as `worker#pid`; a dispatch names the service and the URL of the instance.
_OF_CHILDREN = _RUNNING.format(where="starts_with(t.worker, :name || '#')")
_OF_INSTANCE = _RUNNING.format(where="t.worker = :name")


def _running(tx: Transaction, tenant: str, row: Any) -> list[Document]:
    statement = _OF_CHILDREN if row.kind == "celery" else _OF_INSTANCE
    rows = tx.execute(statement, {"tenant": tenant, "name": _name(row), "most": MOST_SHOWN})
    return [
        RunningTaskRun.of(each, run_id=None if each.pipeline_id is None else each.run_id) for each in rows
    ]


def _common(tenant: str) -> dict[str, Any]:
    return {"tenant": tenant, "stalled": STALLED_AFTER, "lost": LOST_AFTER, "listed": LISTED}


def _worker(row: Any, now: datetime, answer: type[Worker] = Worker, **more: Any) -> Document:
    return answer.of(
        row,
        places=row.concurrency,
        heartbeat_age_ms=duration_ms(row.heartbeat_at, row.stopped_at or now),
        uptime_ms=duration_ms(row.started_at, row.stopped_at or now),
        cpu_percent=None if row.cpu_percent is None else round(row.cpu_percent, 1),
        **more,
    )
