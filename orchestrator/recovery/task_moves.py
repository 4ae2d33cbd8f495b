"""Updates the open task runs of a task that moved to another service or gained a limit.

A task run keeps the queue and the limit that its task had when it was written, so that no step has to look
them up. A registration that changes a task marks it, and the tick updates its open task runs in batches: a
registration must not hold its locks for as long as that may take. Of task runs that were queued, the messages
are sent again like every lost message (lost_messages.py).
"""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.states import OPEN_RUN, sql_in
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

# One tick updates at most this many task runs of a task.
BATCH = 10_000
# One tick looks at most at this many tasks.
TASKS_PER_TICK = 20

_MARKED = """
SELECT k.tenant_id, k.id FROM tasks AS k WHERE k.follow_at <= now() ORDER BY k.follow_at LIMIT :most
"""

# SQL: whether there is anything for this chore.
IS_DUE = "EXISTS (SELECT 1 FROM tasks AS k WHERE k.follow_at <= now())"

# The way leads through the open runs, which are few, not through history. Rows that are being changed are
# left to the next tick: two transactions that lock many rows each may do so in any order.
_QUEUE = queue_names.queue_sql()
# A task run that was placed apart goes on there, or is placed again.
_IS_MOVED = f"t.queue <> {_QUEUE} AND NOT {queue_names.is_apart_sql('t.queue')}"
_FOLLOW = f"""
WITH behind AS MATERIALIZED (
    SELECT t.run_id, t.id, {_QUEUE} AS queue, k.concurrency > 0 OR k.rate_limit IS NOT NULL AS has_limit
    FROM tasks AS k
    JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    JOIN runs AS r ON r.tenant_id = k.tenant_id
        AND r.status IN {sql_in(OPEN_RUN)}
    JOIN task_runs AS t ON t.run_id = r.id AND t.task_id = k.id AND t.finished_at IS NULL
        AND (({_IS_MOVED}) OR (NOT t.is_limited AND (k.concurrency > 0 OR k.rate_limit IS NOT NULL)))
    WHERE k.tenant_id = :tenant AND k.id = :task LIMIT :most
), free AS MATERIALIZED (
    SELECT t.run_id, t.id, b.queue, b.has_limit
    FROM behind AS b JOIN task_runs AS t ON t.run_id = b.run_id AND t.id = b.id
    WHERE t.finished_at IS NULL FOR UPDATE OF t SKIP LOCKED
), moved AS (
    UPDATE task_runs AS t SET queue = f.queue, is_limited = t.is_limited OR f.has_limit
    FROM free AS f WHERE t.run_id = f.run_id AND t.id = f.id RETURNING 1
)
SELECT (SELECT count(*) FROM moved) AS moved, EXISTS (SELECT 1 FROM behind) AS is_behind
"""

# The task is looked at once more when every statement that read it before its change has ended.
_SEEN = """
UPDATE tasks SET follow_at = CASE WHEN now() < follow_until THEN follow_until END
WHERE tenant_id = :tenant AND id = :task AND follow_at <= now()
"""


def run_once(deployment: Deployment) -> int:
    """Update a batch of open task runs of every changed task. Returns their number.

    Raises:
        PartlyFailed: the task runs of some tasks could not be updated.
    """
    return move_open(deployment.database)


def move_open(database: Database) -> int:
    """Give a batch of open task runs of every changed task its queue and limit. Returns their number.

    Raises:
        PartlyFailed: the task runs of some tasks could not be updated; those of the other tasks were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        marked: list[Any] = list(tx.execute(_MARKED, {"most": TASKS_PER_TICK}))
    isolation = Isolation(database)
    moved = sum(
        isolation.run(
            lambda row=row: database.run(lambda tx: _move(tx, row.tenant_id, row.id)),  # type: ignore[misc]
            tenant=row.tenant_id,
            task_id=row.id,
        )
        for row in marked
    )
    return isolation.finish(moved)


def _move(tx: Transaction, tenant: str, task: str) -> int:
    parameters = {"tenant": tenant, "task": task}
    row: Any = tx.execute(_FOLLOW, {**parameters, "most": BATCH}).one()
    if not row.is_behind:
        tx.execute(_SEEN, parameters)
    return int(row.moved)
