"""Counts the work that is not over: task runs by task and status, runs, dead letters, enqueued runs.

Every count uses the partial index of its status, so history costs nothing, and ends at a bound.
"""

from __future__ import annotations

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, RunStatus, sql_in
from pipeweave.orchestrator.metrics.catalogue import (
    CHILD_RUNS,
    COUNT_CAPPED,
    DEAD_LETTERS,
    ENQUEUED,
    ENQUEUED_OLDEST,
    IN_PROGRESS,
    OPEN_RUNS,
    QUEUE_DEPTH,
    QUEUE_OLDEST,
)
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.store.database import Transaction

# What is counted of one task, or of one tenant; and of all where an index does not lead by task or tenant.
MOST_OF_ONE = 10_000
MOST_OF_ALL = 50_000
# Tasks and tenants that are looked at one by one.
MOST_GROUPS = 1_000


def _by_task(status: str, condition: str) -> str:
    """SQL: how many task runs of each task have a status, by an index that begins with tenant and task: two
    looks for each task that has any.
    """
    return f"""
WITH RECURSIVE tasks_with AS (
    (SELECT t.tenant_id, t.task_id FROM task_runs AS t WHERE {condition}
     ORDER BY t.tenant_id, t.task_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.task_id FROM tasks_with AS b CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.task_id FROM task_runs AS t
        WHERE {condition} AND (t.tenant_id, t.task_id) > (b.tenant_id, b.task_id)
        ORDER BY t.tenant_id, t.task_id LIMIT 1) AS n
), chosen AS MATERIALIZED (SELECT b.tenant_id, b.task_id FROM tasks_with AS b LIMIT :groups)
SELECT '{status}' AS status, s.tenant_id, s.task_id, c.number, c.oldest_s, c.number >= :most AS is_capped
FROM chosen AS s CROSS JOIN LATERAL (
    SELECT count(*) AS number,
           extract(epoch FROM now() - min(coalesce(o.queued_at, o.created_at))) AS oldest_s
    FROM (SELECT t.queued_at, t.created_at FROM task_runs AS t
          WHERE {condition} AND t.tenant_id = s.tenant_id AND t.task_id = s.task_id LIMIT :most) AS o) AS c
"""


def _of_all(status: str, condition: str, since: str, order: str) -> str:
    """SQL: the same by an index that does not begin with the task."""
    return f"""
SELECT '{status}' AS status, o.tenant_id, o.task_id, count(*) AS number,
       extract(epoch FROM now() - min(o.since)) AS oldest_s,
       sum(count(*)) OVER () >= :most_of_all AS is_capped
FROM (SELECT t.tenant_id, t.task_id, {since} AS since FROM task_runs AS t WHERE {condition}{order}
      LIMIT :most_of_all) AS o
GROUP BY o.tenant_id, o.task_id
"""


# What is queued is counted by queue (queues.py). A map is not in a queue, only its items are.
_IS_PENDING = "t.status = 'pending' AND t.due_at IS NOT NULL"
_NOT_STARTED = f"""
({_by_task("ready", "t.status = 'ready'")})
UNION ALL
({_of_all("pending", _IS_PENDING, "t.due_at", " ORDER BY t.due_at")})
"""
_IN_PROGRESS = f"""
({_by_task("waiting", f"t.status = 'waiting' AND {kind_sql.IS_CALLED}")})
UNION ALL
({_of_all("running", f"t.status = 'running' AND {kind_sql.IS_CALLED}", "t.started_at", "")})
"""
_BOUNDS = {"groups": MOST_GROUPS, "most": MOST_OF_ONE, "most_of_all": MOST_OF_ALL}


def task_runs(tx: Transaction) -> Samples:
    """The task runs that wait for something else than a worker, and those in progress."""
    made = Samples()
    for row in tx.execute(_NOT_STARTED, _BOUNDS):
        labels = row.tenant_id, row.task_id, row.status
        made.add(QUEUE_DEPTH, row.number, *labels)
        made.add(QUEUE_OLDEST, max(0.0, float(row.oldest_s)), *labels)
        note_cap(made, row.status, row.is_capped)
    for row in tx.execute(_IN_PROGRESS, _BOUNDS):
        made.add(IN_PROGRESS, row.number, row.tenant_id, row.task_id, row.status)
        note_cap(made, row.status, row.is_capped)
    return made


def note_cap(made: Samples, count: str, is_capped: bool) -> None:
    """Note whether a count ended at its bound."""
    made.add(COUNT_CAPPED, float(is_capped), count)


_ACTIVE = f"""
SELECT o.tenant_id, o.is_child,
       CASE WHEN o.is_child THEN '' ELSE coalesce(o.pipeline_id, '') END AS pipeline_id,
       CAST(o.status AS text) AS status, count(*) AS number,
       sum(count(*)) OVER () >= :most_of_all AS is_capped
FROM (SELECT r.tenant_id, r.pipeline_id, r.status, r.parent_run_id IS NOT NULL AS is_child
      FROM runs AS r WHERE r.status IN {sql_in(ACTIVE_RUN)}
      LIMIT :most_of_all) AS o
GROUP BY 1, 2, 3, 4
"""
_PAUSED = f"""
SELECT o.tenant_id, o.is_child,
       CASE WHEN o.is_child THEN '' ELSE coalesce(o.pipeline_id, '') END AS pipeline_id,
       '{RunStatus.PAUSED}' AS status, count(*) AS number, sum(count(*)) OVER () >= :most AS is_capped
FROM (SELECT p.tenant_id, r.pipeline_id, coalesce(r.is_child, false) AS is_child
      FROM (SELECT p.tenant_id, p.run_id FROM run_pauses AS p LIMIT :most) AS p LEFT JOIN LATERAL (
          SELECT r.pipeline_id, r.parent_run_id IS NOT NULL AS is_child FROM runs AS r
          WHERE r.id = p.run_id OFFSET 0) AS r ON true) AS o
GROUP BY 1, 2, 3
"""
_OPEN_RUNS = f"({_ACTIVE})\nUNION ALL\n({_PAUSED})"


def runs(tx: Transaction) -> Samples:
    """The runs that are not over; child runs apart."""
    made = Samples()
    for row in tx.execute(_OPEN_RUNS, _BOUNDS):
        if row.is_child:
            made.add(CHILD_RUNS, row.number, row.tenant_id, row.status)
        else:
            made.add(OPEN_RUNS, row.number, row.tenant_id, row.pipeline_id, row.status)
        note_cap(made, "runs", row.is_capped)
    return made


_LETTERS = """
WITH RECURSIVE tenants_with AS (
    (SELECT d.tenant_id FROM dead_letters AS d WHERE d.retried_at IS NULL AND d.discarded_at IS NULL
     ORDER BY d.tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.tenant_id FROM dead_letters AS d
            WHERE d.retried_at IS NULL AND d.discarded_at IS NULL AND d.tenant_id > w.tenant_id
            ORDER BY d.tenant_id LIMIT 1) FROM tenants_with AS w WHERE w.tenant_id IS NOT NULL
), chosen AS MATERIALIZED (
    SELECT w.tenant_id FROM tenants_with AS w WHERE w.tenant_id IS NOT NULL LIMIT :groups
)
SELECT s.tenant_id, o.task_id, count(*) AS number,
       sum(count(*)) OVER (PARTITION BY s.tenant_id) >= :most AS is_capped
FROM chosen AS s CROSS JOIN LATERAL (
    SELECT d.task_id FROM dead_letters AS d
    WHERE d.tenant_id = s.tenant_id AND d.retried_at IS NULL AND d.discarded_at IS NULL
    ORDER BY d.id DESC LIMIT :most) AS o
GROUP BY s.tenant_id, o.task_id
"""


def dead_letters(tx: Transaction) -> Samples:
    """The open dead letters."""
    made = Samples()
    for row in tx.execute(_LETTERS, _BOUNDS):
        made.add(DEAD_LETTERS, row.number, row.tenant_id, row.task_id)
        note_cap(made, "dead_letters", row.is_capped)
    return made


_ENQUEUED = """
SELECT o.tenant_id, count(*) AS number, extract(epoch FROM now() - min(o.due_at)) AS oldest_s,
       sum(count(*)) OVER () >= :most AS is_capped
FROM (SELECT e.tenant_id, e.due_at FROM enqueued_runs AS e WHERE e.settled_at IS NULL AND e.due_at <= now()
      ORDER BY e.due_at LIMIT :most) AS o
GROUP BY o.tenant_id
"""


def enqueued(tx: Transaction) -> Samples:
    """The rows that ask for a run and are due."""
    made = Samples()
    for row in tx.execute(_ENQUEUED, _BOUNDS):
        made.add(ENQUEUED, row.number, row.tenant_id)
        made.add(ENQUEUED_OLDEST, float(row.oldest_s), row.tenant_id)
        note_cap(made, "enqueued_runs", row.is_capped)
    return made
