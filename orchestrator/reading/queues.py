"""Read models of queues: what waits in each of them, who serves it, and how fast it empties.

Every number is bounded: what waits is counted up to MOST_COUNTED along the index of queued task runs, and
rates come from the statistics of the last minutes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.queues import Queue, SlotHolder, TaskLimit
from pipeweave.orchestrator.domain import kind_sql, queue_names
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.domain.states import LIVE_TASK, sql_in
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.registry.worker_processes import LOST_AFTER
from pipeweave.orchestrator.state.pause_sql import is_paused
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest
from pipeweave.rates import Rate

MOST_COUNTED = 10_000
"""What waits in a queue is counted up to here."""

MOST_LIMITS = 200
MOST_HOLDERS = 5
# Ends are averaged over so many whole minutes.
MINUTES = 5

# Queues with work, of live workers, and of registered tasks. An own queue matters only while work is in it,
# and so do those of all sets of the labels of a worker.
_QUEUES = f"""
WITH RECURSIVE {placement.WITH_WORK}, named AS (
    SELECT q.queue FROM queues AS q WHERE starts_with(q.queue, :prefix)
    UNION
    SELECT u.queue FROM workers AS w CROSS JOIN LATERAL unnest(w.queues) AS u(queue)
    WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL AND NOT {queue_names.is_apart_sql("u.queue")}
        AND NOT {queue_names.has_labels_sql("u.queue")}
    UNION
    SELECT {queue_names.queue_sql(None)} FROM tasks AS k
        JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    WHERE k.tenant_id = :tenant AND k.orphaned_at IS NULL
), ended AS MATERIALIZED (
    SELECT {queue_names.queue_sql(None)} AS queue,
        sum(x.completed + x.failed + x.timed_out + x.lost) AS number
    FROM tasks AS k JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
        JOIN task_stats AS x ON x.tenant_id = k.tenant_id AND x.scope = 'task' AND x.id = k.id
            AND x.grain = 'minute' AND x.at >= date_trunc('minute', now()) - CAST(:window AS interval)
            AND x.at < date_trunc('minute', now())
    WHERE k.tenant_id = :tenant GROUP BY 1
), at_work AS MATERIALIZED (
    SELECT t.queue, count(*) AS number FROM task_runs AS t
    WHERE t.status = 'running' AND t.tenant_id = :tenant GROUP BY t.queue
)
SELECT f.* FROM (SELECT n.queue, c.number, c.recent, c.oldest, w.workers, w.places, w.busy,
    coalesce(e.number, 0) AS ended, coalesce(a.number, 0) AS running
FROM named AS n
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(f.queued_at) AS oldest,
        count(*) FILTER (WHERE f.queued_at > now() - interval '1 minute') AS recent
    FROM (SELECT t.queued_at FROM task_runs AS t WHERE t.status = 'queued' AND t.queue = n.queue
          ORDER BY t.priority, t.queued_at LIMIT :most + 1) AS f) AS c
CROSS JOIN LATERAL (
    SELECT count(*) AS workers, coalesce(sum(w.concurrency), 0) AS places, sum(w.busy) AS busy
    FROM workers AS w WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL AND w.stopping_at IS NULL
        AND w.heartbeat_at >= now() - CAST(:lost AS interval) AND n.queue = ANY(w.queues)) AS w
LEFT JOIN ended AS e ON e.queue = n.queue
LEFT JOIN at_work AS a ON a.queue = n.queue
WHERE CAST(:queue AS text) IS NULL OR n.queue = :queue) AS f
WHERE CAST(:number AS bigint) IS NULL OR (-f.number, f.queue) > (-CAST(:number AS bigint), :after)
ORDER BY -f.number, f.queue LIMIT :limit
"""


def queues(tx: Transaction, tenant: str, page: PageRequest) -> Document:
    """The tenant's queues, the longest first: {items, nextCursor}. One that becomes longer or shorter between
    two pages may be on both of them, or on none.
    """
    number, after = page.after("queues", Int32, str) or (None, None)
    rows = _rows(tx, tenant, number=number, after=after, limit=page.limit + 1)
    prefix = queue_names.service_queue(tenant, "")
    return page.cut(
        rows, "queues", lambda row: (row.number, row.queue), lambda row: _queue(row, prefix, tx.now)
    )


def queue(tx: Transaction, tenant: str, name: str) -> Document:
    """One queue, as the list shows it.

    Raises:
        NotFound: the tenant has no such queue.
    """
    rows = _rows(tx, tenant, queue=name, limit=1)
    if not rows:
        raise NotFound(f"there is no queue {name[:200]!r}", hint="GET /api/queues lists the queues")
    return _queue(rows[0], queue_names.service_queue(tenant, ""), tx.now)


def _rows(tx: Transaction, tenant: str, **chosen: Any) -> list[Any]:
    parameters = {
        "tenant": tenant,
        "prefix": queue_names.service_queue(tenant, ""),
        "window": timedelta(minutes=MINUTES),
        "most": MOST_COUNTED,
        "lost": LOST_AFTER,
    }
    defaults = {"queue": None, "number": None, "after": None}
    return tx.execute(_QUEUES, parameters | defaults | chosen).all()


def _queue(row: Any, prefix: str, now: Any) -> Document:
    kind, service, name = _parts(row.queue, prefix)
    is_capped = row.number > MOST_COUNTED
    number = min(row.number, MOST_COUNTED)
    oldest_s = 0.0 if row.oldest is None else max(0.0, (now - row.oldest).total_seconds())
    leaves = float(row.ended) / MINUTES
    comes = None if is_capped else _comes(row.recent, leaves, oldest_s)
    return Queue.of(
        row,
        kind=kind,
        service_id=service,
        name=name,
        queued=number,
        is_capped=is_capped,
        oldest_wait_ms=duration_ms(row.oldest, now),
        in_per_minute=None if comes is None else round(comes, 1),
        out_per_minute=round(leaves, 1),
        empty_in_ms=_empty_in_ms(number, comes, leaves),
    )


def _comes(recent: int, leaves: float, oldest_s: float) -> float:
    """About how many came in the last minute: those that still wait, and those that have left again, which is
    all that left unless it had to wait for longer than a minute.
    """
    return recent + leaves * max(0.0, 1 - oldest_s / 60)


def _empty_in_ms(number: int, comes: float | None, leaves: float) -> float | None:
    """When the queue is empty if it goes on like this (ms); None: never, or nobody knows."""
    if number == 0:
        return 0.0
    if comes is None or leaves <= comes:
        return None
    return round(60_000 * number / (leaves - comes), 1)


def _parts(queue: str, prefix: str) -> tuple[str, str | None, str]:
    """The kind of a queue, its service, and its name as users write it."""
    own, plus, labels = queue_names.plain(queue).removeprefix(prefix).partition(queue_names.LABEL)
    service, _, name = own.partition("/")
    if queue_names.is_dispatch(queue):
        return "dispatch", None, "HTTP dispatches"
    if queue_names.is_parking(queue):
        return "parking", service, queue.rpartition(queue_names.APART)[2]
    kind = "own" if queue_names.APART in queue else "tasks"
    return kind, service, (name or queue_names.DEFAULT) + plus + labels


# --- limits -----------------------------------------------------------------------------------------------

# Live rows of limited tasks have an index of their own, and so do the rows that the limits hold back.
_LIMITS = f"""
SELECT k.id, k.concurrency, k.rate_limit, k.rate_seconds, k.limits_set_at IS NOT NULL AS is_overridden,
    {is_paused("k.tenant_id", "k.id")} AS is_paused, l.number AS live, h.number AS held, h.oldest
FROM tasks AS k
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (SELECT 1 FROM task_runs AS t WHERE t.tenant_id = k.tenant_id
        AND t.task_id = k.id AND t.is_limited AND {kind_sql.IS_CALLED}
        AND t.status IN {sql_in(LIVE_TASK)}
        AND NOT {queue_names.is_parking_sql("t.queue")} LIMIT :most) AS n) AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(n.created_at) AS oldest FROM (
        SELECT t.created_at FROM task_runs AS t WHERE t.tenant_id = k.tenant_id AND t.task_id = k.id
            AND t.status = 'ready' ORDER BY t.priority, t.id LIMIT :most) AS n) AS h
WHERE k.tenant_id = :tenant AND k.orphaned_at IS NULL
    AND (k.concurrency > 0 OR k.rate_limit IS NOT NULL OR k.limits_set_at IS NOT NULL)
ORDER BY h.number DESC, k.id LIMIT :tasks
"""

# The runs that hold the most slots of a task.
_HOLDERS = f"""
SELECT k.id AS task_id, g.run_id, g.number, g.first, r.pipeline_id
FROM unnest(CAST(:tasks AS text[])) AS k(id)
CROSS JOIN LATERAL (
    SELECT n.run_id, count(*) AS number, min(CAST(n.id AS text)) AS first FROM (
        SELECT t.run_id, t.id FROM task_runs AS t WHERE t.tenant_id = :tenant AND t.task_id = k.id
            AND t.is_limited AND {kind_sql.IS_CALLED} AND t.status IN {sql_in(LIVE_TASK)}
            AND NOT {queue_names.is_parking_sql("t.queue")} LIMIT :most) AS n
    GROUP BY n.run_id ORDER BY count(*) DESC, n.run_id LIMIT :holders) AS g
LEFT JOIN runs AS r ON r.id = g.run_id
ORDER BY k.id, g.number DESC, g.run_id
"""


def task_limits(tx: Transaction, tenant: str) -> list[Document]:
    """The tasks with limits, with what holds their slots; those that hold back the most come first."""
    rows = tx.execute(_LIMITS, {"tenant": tenant, "most": MOST_COUNTED, "tasks": MOST_LIMITS}).all()
    full = [row.id for row in rows if row.live]
    holders: dict[str, list[Document]] = {}
    parameters = {"tenant": tenant, "tasks": full, "most": MOST_COUNTED, "holders": MOST_HOLDERS}
    for each in tx.execute(_HOLDERS, parameters) if full else ():
        holders.setdefault(each.task_id, []).append(_holder(each))
    return [_limit(row, holders.get(row.id, [])) for row in rows]


def _holder(row: Any) -> Document:
    is_standalone = row.pipeline_id is None
    return SlotHolder.of(
        row,
        run_id=None if is_standalone else row.run_id,
        task_run_id=UUID(row.first) if is_standalone else None,
        slots=row.number,
    )


def _limit(row: Any, holders: list[Document]) -> Document:
    return TaskLimit.of(
        row,
        task_id=row.id,
        rate_limit=None if row.rate_limit is None else str(Rate(row.rate_limit, row.rate_seconds)),
        held_is_capped=row.held >= MOST_COUNTED,
        oldest_held=row.oldest,
        holders=holders,
    )
