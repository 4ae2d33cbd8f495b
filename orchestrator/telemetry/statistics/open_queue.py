"""What waits and runs now, by task, in the shape of the worker protocol's documentation.

It reads open rows by partial indexes, at most MOST_ROWS of each status: its cost has nothing to do with
history.
"""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.documents.statistics import OldestPending, QueueDepth, QueueStatistics, TaskDepth
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# Rows of one status that are counted.
MOST_ROWS = 10_000
# Tasks of the answer, those with the most task runs first.
MOST_TASKS = 200

# Each WHERE is that of a partial index. A map is not in a queue, only its items are.
_OPEN = {
    "ready": "t.status = 'ready'",
    "queued": "t.status = 'queued'",
    "due": "t.status = 'pending' AND t.due_at IS NOT NULL",
    "running": "t.status = 'running'",
    "waiting": "t.status = 'waiting'",
}
_BRANCHES = " UNION ALL ".join(
    f"""(SELECT '{name}' AS status, t.task_id, t.id, coalesce(t.queued_at, t.created_at) AS since
        FROM task_runs AS t
        WHERE {condition} AND t.tenant_id = :tenant AND {kind_sql.IS_CALLED} LIMIT :most)"""
    for name, condition in _OPEN.items()
)
_BY_TASK = f"""
SELECT o.status, o.task_id, count(*) AS number, min(o.since) AS oldest,
    (array_agg(o.id ORDER BY o.since))[1] AS oldest_id,
    sum(extract(epoch FROM now() - o.since)) AS waited_s, now() AS now
FROM ({_BRANCHES}) AS o GROUP BY o.status, o.task_id
"""
_PENDING = ("ready", "queued", "due")


def queue(tx: Transaction, tenant: str) -> Document:
    """What waits and runs; `pending` is what is ready, queued or due later."""
    rows = tx.execute(_BY_TASK, {"tenant": tenant, "most": MOST_ROWS}).all()
    waiting = [row for row in rows if row.status in _PENDING]
    oldest = min(waiting, key=lambda row: row.oldest, default=None)
    count = sum(row.number for row in waiting)
    tasks: dict[str, list[Any]] = {}
    for row in rows:
        tasks.setdefault(row.task_id, []).append(row)
    shown = [_task(task_id, of_task) for task_id, of_task in tasks.items()]
    shown.sort(key=lambda each: (-each["pending"] - each["running"] - each["waiting"], each["taskId"]))
    waited_ms = sum(float(row.waited_s) for row in waiting) * 1000
    return QueueStatistics.of(
        depth=QueueDepth.of(**_depth(rows)),
        by_task=shown[:MOST_TASKS],
        oldest_pending=oldest and _oldest_pending(oldest),
        avg_wait_ms=round(waited_ms / count, 1) if count else None,
        is_capped=any(
            sum(row.number for row in rows if row.status == status) >= MOST_ROWS for status in _OPEN
        ),
    )


def _oldest_pending(row: Any) -> Document:
    return OldestPending.of(row, run_id=row.oldest_id, wait_ms=duration_ms(row.oldest, row.now))


def _depth(rows: list[Any]) -> dict[str, int]:
    counts = dict.fromkeys(("pending", "running", "waiting"), 0)
    for row in rows:
        counts["pending" if row.status in _PENDING else row.status] += row.number
    return counts


def _task(task_id: str, rows: list[Any]) -> Document:
    waits = [row for row in rows if row.status in _PENDING]
    oldest = min(waits, key=lambda row: row.oldest, default=None)
    return TaskDepth.of(
        task_id=task_id,
        task_name=task_id,
        **_depth(rows),
        oldest_wait_ms=oldest and duration_ms(oldest.oldest, oldest.now),
    )
