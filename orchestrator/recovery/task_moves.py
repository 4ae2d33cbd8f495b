"""What is open of a task follows it: to the queue of the service that took it over, and under a limit that it
did not have before.

A task run keeps the queue and the limit that its task had when it was written, so that no step has to ask for
them. A registration that changes one of them marks the task; the tick then brings after what is open, a batch
at a time, for a registration must not hold its locks for as long as that may take. What was queued, the tick
sends again, as it does with every lost message.
"""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.domain.states import OPEN_RUN, sql_in
from pipeweave.orchestrator.store.database import Database, Transaction

# Task runs that one tick brings after, of one task.
BATCH = 10_000
# Tasks that one tick looks at.
TASKS_PER_TICK = 20

_MARKED = """
SELECT k.tenant_id, k.id FROM tasks AS k WHERE k.follow_at <= now() ORDER BY k.follow_at LIMIT :most
"""

# Through the open runs, which are few, not through history. Rows that are being changed are left to the next
# tick: two that lock many rows each may meet in any order.
_FOLLOW = f"""
WITH behind AS MATERIALIZED (
    SELECT t.run_id, t.id, s.queue, k.concurrency > 0 OR k.rate_limit IS NOT NULL AS has_limit
    FROM tasks AS k
    JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
    JOIN runs AS r ON r.tenant_id = k.tenant_id
        AND r.status IN {sql_in(OPEN_RUN)}
    JOIN task_runs AS t ON t.run_id = r.id AND t.task_id = k.id AND t.finished_at IS NULL
        AND (t.queue <> s.queue OR (NOT t.is_limited AND (k.concurrency > 0 OR k.rate_limit IS NOT NULL)))
    WHERE k.tenant_id = :tenant AND k.id = :task LIMIT :most
), free AS MATERIALIZED (
    SELECT t.run_id, t.id, b.queue, b.has_limit
    FROM behind AS b JOIN task_runs AS t ON t.run_id = b.run_id AND t.id = b.id
    WHERE t.finished_at IS NULL FOR UPDATE OF t SKIP LOCKED
), brought AS (
    UPDATE task_runs AS t SET queue = f.queue, is_limited = t.is_limited OR f.has_limit
    FROM free AS f WHERE t.run_id = f.run_id AND t.id = f.id RETURNING 1
)
SELECT (SELECT count(*) FROM brought) AS brought, EXISTS (SELECT 1 FROM behind) AS is_behind
"""

# One more look when whatever was on its way has arrived; then it is over.
_SEEN = """
UPDATE tasks SET follow_at = CASE WHEN now() < follow_until THEN follow_until END
WHERE tenant_id = :tenant AND id = :task AND follow_at <= now()
"""


def bring(database: Database) -> int:
    """Bring after what is open of tasks that were changed. How many task runs."""
    with database.statements() as tx:
        marked: list[Any] = list(tx.execute(_MARKED, {"most": TASKS_PER_TICK}))
    return sum(database.run(lambda tx, row=row: _bring(tx, row.tenant_id, row.id)) for row in marked)  # type: ignore[misc]


def _bring(tx: Transaction, tenant: str, task: str) -> int:
    which = {"tenant": tenant, "task": task}
    found: Any = tx.execute(_FOLLOW, {**which, "most": BATCH}).one()
    if not found.is_behind:
        tx.execute(_SEEN, which)
    return int(found.brought)
