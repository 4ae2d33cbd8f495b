"""Insert a million finished runs within a minute: the history that a deployment has after months.

Runs of one step with the rows that such a run leaves, their ids spread evenly over the past months up to an
hour ago, so that each lies in the partition of its month.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2

MONTHS = 6
# Newer than the history: all runs of the benchmarks.
NEWEST_AGE = timedelta(hours=1)
# Rows of runs in one transaction.
CHUNK = 100_000

# As ids.new_id makes them: the time, then chance, then 24 bits that number the task runs.
_MADE = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, at, CAST(lpad(to_hex(CAST(extract(epoch FROM at) * 1000 AS bigint)), 12, '0') || '70008'
    || lpad(to_hex(n %% 4096), 3, '0') || lpad(to_hex(n), 6, '0') || '000000' AS uuid) AS id
FROM (SELECT n, CAST(%(oldest)s AS timestamptz) + (n - 0.5) / %(count)s * CAST(%(span)s AS interval) AS at
      FROM generate_series(%(first)s, %(last)s) AS n) AS times
"""

_RUNS = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input, input_size,
    inputs_hash, task_run_count, error_code, created_at, started_at, finished_at)
SELECT id, 'default', %(pipeline)s, 1, CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'completed' END, 'fail-fast',
    '{}', 2, repeat('4', 64), 1, CASE WHEN n %% 100 = 0 THEN 'STEP_FAILED' END, at, at, at + interval '9 ms'
FROM made ORDER BY id
"""

_TASK_RUNS = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority, queue,
    is_limited, code_version, code_hash, output, output_size, output_hash, error_code, worker, created_at,
    queued_at, started_at, heartbeat_at, finished_at)
SELECT id, CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid), 'default', 'step_0', 'noop', 'task',
    CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'completed' END, 4, 100, 'pipeweave.default.python', false, 1,
    repeat('4', 64), CASE WHEN n %% 100 > 0 THEN CAST('null' AS jsonb) END, 4, repeat('7', 64),
    CASE WHEN n %% 100 = 0 THEN 'TASK_FAILED' END, 'past', at, at, at + interval '3 ms', at + interval '3 ms',
    at + interval '7 ms'
FROM made ORDER BY id
"""

_EVENTS = """
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT id, at + e.after, e.type, CASE WHEN e.is_of_step
    THEN CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid) END, CASE WHEN e.is_of_step THEN 1 END,
    CAST(e.data AS jsonb)
FROM made, (VALUES
    (1, interval '0 ms', 'run.created', false, '{"pipelineId": "single", "pipelineVersion": 1, "steps": 1}'),
    (2, interval '0 ms', 'task_runs.queued', false, '{"ordinals": [1]}'),
    (3, interval '3 ms', 'task_run.started', true, '{"worker": "past"}'),
    (4, interval '7 ms', 'task_run.completed', true, '{"outputHash": "74234e98afe7498f"}'),
    (5, interval '9 ms', 'run.completed', false, NULL)) AS e(n, after, type, is_of_step, data)
ORDER BY id, e.n
"""

# Nothing of the history is new for the statistics: to count it would be a work beside the first benchmark.
_COUNTED = "UPDATE feed_consumers SET before = pg_snapshot_xmax(pg_current_snapshot()), open = '{}'"


def fill(database_url: str, count: int, pipeline: str) -> None:
    """Insert this many finished runs of the pipeline, and update the planner's statistics."""
    # Only PipeWeave needs it; the processes of plain Celery import this package, too.
    from pipeweave.orchestrator.retention import partitions
    from pipeweave.orchestrator.store import Database

    newest = datetime.now(UTC) - NEWEST_AGE
    oldest = newest - timedelta(days=30 * MONTHS)
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        # From the oldest month to the one after this; those that are there already stay.
        partitions.ensure(tx, oldest, months_ahead=MONTHS + 1)
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        for first in range(1, count + 1, CHUNK):
            parameters = {
                "first": first,
                "last": min(first + CHUNK - 1, count),
                "count": count,
                "oldest": oldest,
                "span": newest - oldest,
                "pipeline": pipeline,
            }
            for statement in (_MADE, _RUNS, _TASK_RUNS, _EVENTS):
                cursor.execute(statement, parameters)
            connection.commit()
        connection.autocommit = True
        cursor.execute(_COUNTED)
        cursor.execute("VACUUM ANALYZE")


def settle(admin_url: str) -> None:
    """Run a checkpoint now, because a checkpoint in the background slows commits for minutes."""
    with closing(psycopg2.connect(admin_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")
