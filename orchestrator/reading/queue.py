"""Reads a tenant's queue: counts and lists of the task runs that wait or run, over all its runs.

Counts of open rows use partial indexes only, so they do not grow slower with history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.documents.queues import ListedItem, QueueStatus, StatusCount
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.domain.states import FINAL_TASK, TaskStatus, sql_in
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest

# `completed` and `failed` count this far back, in at most this many of the newest runs and task runs: a total
# over all time would read all of history.
WINDOW = timedelta(hours=24)
MOST_RUNS = 10_000
MOST_TASK_RUNS = 100_000

# Each condition matches a partial index. A map is not in a queue, only its items are.
OPEN = {
    "ready": "t.status = 'ready'",
    "queued": "t.status = 'queued'",
    "pending": "t.status = 'pending' AND t.due_at IS NOT NULL",
    "running": "t.status = 'running'",
    "waiting": "t.status = 'waiting'",
}
"""Status -> SQL condition for task runs in a queue; a pending task run only counts when it has a due time."""

_MINE = f"t.tenant_id = :tenant AND {kind_sql.IS_CALLED}"

_COUNT = " UNION ALL ".join(
    f"SELECT '{status}' AS status, count(*) AS number,"
    f" min(coalesce(t.queued_at, t.created_at)) AS oldest FROM task_runs AS t WHERE {condition} AND {_MINE}"
    for status, condition in OPEN.items()
)

# The newest runs are read once, for the statuses of their task runs and for how many runs they are.
_ENDED = f"""
WITH recent AS MATERIALIZED (
    SELECT r.id FROM runs AS r WHERE r.tenant_id = :tenant AND r.id >= :since
    ORDER BY r.id DESC LIMIT :most_runs
)
SELECT ended.status, count(*) AS number, min(ended.created_at) AS oldest,
       (SELECT count(*) FROM recent) AS runs
FROM (
    SELECT t.status, t.created_at FROM recent
    CROSS JOIN LATERAL (
        SELECT t.status, t.created_at FROM task_runs AS t
        WHERE t.run_id = recent.id AND {kind_sql.IS_CALLED} AND t.status IN {sql_in(FINAL_TASK)}
        ) AS t
    LIMIT :most_task_runs) AS ended
GROUP BY ended.status
"""

_DEAD_LETTERS = """
SELECT count(*) FROM dead_letters WHERE tenant_id = :tenant AND retried_at IS NULL AND discarded_at IS NULL
"""


def queue_status(tx: Transaction, tenant: str) -> Document:
    """Counts of task runs without maps, and pauses; `pausedAt` is of a pause of the tenant.

    `pending` counts task runs that are ready, queued or have a due time, not steps with open predecessors.
    `completed` and `failed` count runs created in the last 24 hours (`since`), of at most the newest 10,000
    runs and 100,000 task runs. `statuses` has every status by itself.
    """
    since = tx.now - WINDOW
    opened = {row.status: row for row in tx.execute(_COUNT, {"tenant": tenant})}
    rows = tx.execute(_ENDED, _ended_parameters(tenant, since.timestamp())).all()
    ended = {row.status: row.number for row in rows}
    waits = [opened[status] for status in ("ready", "queued", "pending")]
    oldest = min((row.oldest for row in waits if row.oldest is not None), default=None)
    return QueueStatus.of(
        pending=sum(row.number for row in waits),
        running=opened["running"].number,
        waiting=opened["waiting"].number,
        completed=ended.get("completed", 0),
        failed=ended.get("failed", 0) + ended.get("timeout", 0),
        dlq=tx.execute(_DEAD_LETTERS, {"tenant": tenant}).scalar_one(),
        oldest_pending=oldest,
        statuses=_statuses(opened, rows),
        **_paused(tx, tenant),
        since=since,
    )


def _statuses(opened: Mapping[str, Any], ended: Sequence[Any]) -> Document:
    """The counts by status, in the order of the life of a task run."""
    is_capped = sum(row.number for row in ended) >= MOST_TASK_RUNS or any(
        row.runs >= MOST_RUNS for row in ended
    )
    rows = dict(opened) | {row.status: row for row in ended}
    return {
        status.value: StatusCount.of(
            count=rows[status].number if status in rows else 0,
            oldest=rows[status].oldest if status in rows else None,
            is_capped=is_capped and status in FINAL_TASK,
        )
        for status in TaskStatus
    }


def _paused(tx: Transaction, tenant: str) -> dict[str, Any]:
    task_pauses = {each.task_id: each for each in pauses.find(tx, tenant)}
    all_tasks = task_pauses.pop(None, None)
    return {
        "paused_at": all_tasks and all_tasks.paused_at,
        "pause_reason": all_tasks and all_tasks.reason,
        "paused_tasks": list(task_pauses),
    }


def _ended_parameters(tenant: str, since: float) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "since": ids.first_id_at(int(since * 1000)),
        "most_runs": MOST_RUNS,
        "most_task_runs": MOST_TASK_RUNS,
    }


_COLUMNS = """t.id, t.run_id, t.step_id, t.task_id, t.kind, t.map_index, t.status, t.attempt, t.max_attempts,
t.priority, t.queue, t.progress, t.progress_message, t.worker, t.created_at, t.due_at, t.queued_at,
t.started_at"""


def queue_items(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    *,
    status: str | None = None,
    task_id: str | None = None,
    queue: str | None = None,
) -> Document:
    """The open task runs in the order in which they start (priority, then age): {items, nextCursor}.

    Args:
        status: `pending`, `ready`, `queued`, `running` or `waiting`; None for all of them.

    Raises:
        InvalidInput: another status.
    """
    if status is not None and status not in OPEN:
        message = f"must be one of {', '.join(OPEN)}"
        raise InvalidInput(f"status {message}", errors=[FieldError("status", message, "invalid_value")])
    after = page.after("queue", Int32, UUID)
    where = [_MINE]
    parameters: dict[str, Any] = {
        "tenant": tenant,
        "task_id": task_id,
        "queue": queue,
        "limit": page.limit + 1,
    }
    if task_id is not None:
        where.append("t.task_id = :task_id")
    if queue is not None:
        where.append("t.queue = :queue")
    if after:
        where.append("(t.priority, t.id) > (:priority, CAST(:after AS uuid))")
        parameters |= {"priority": after[0], "after": after[1]}
    branches = " UNION ALL ".join(
        f"(SELECT {_COLUMNS} FROM task_runs AS t WHERE {condition} AND {' AND '.join(where)}"
        f" ORDER BY t.priority, t.id LIMIT :limit)"
        for each, condition in OPEN.items()
        if status in (None, each)
    )
    # A subquery, not a join: for a join the planner may read all runs, without pruning partitions.
    statement = f"""
        SELECT q.*, (SELECT r.pipeline_id FROM runs AS r WHERE r.id = q.run_id) AS pipeline_id
        FROM (SELECT * FROM ({branches}) AS o ORDER BY o.priority, o.id LIMIT :limit) AS q
        ORDER BY q.priority, q.id"""
    rows = tx.execute(statement, parameters).all()
    return page.cut(rows, "queue", lambda row: (row.priority, row.id), lambda row: _item(row, tx.now))


def _item(row: Any, now: datetime) -> Document:
    return ListedItem.of(
        row,
        run_id=None if row.pipeline_id is None else row.run_id,
        wait_ms=duration_ms(row.queued_at or row.created_at, row.started_at or now),
    )
