"""Reads what has ended in a stretch of the event log: runs, and attempts of task runs."""

from __future__ import annotations

from collections.abc import Iterator

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.feed import stretch
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry.traces import spans
from pipeweave.orchestrator.telemetry.traces.spans import TraceSpan

_RUN_ENDS = ["run.completed", "run.partial", "run.failed", "run.cancelled"]
_ATTEMPT_ENDS = ["task_run.completed", "task_run.retrying", "task_run.failed", "task_run.timed_out"]
_CANCELLED = ["task_runs.cancelled"]

# OFFSET 0 keeps the planner from joining whole tables: the row of each event is looked up by its key.
_RUNS = f"""
SELECT e.run_id, e.seq, e.at, e.type, r.* FROM ({stretch.EVENTS}) AS e CROSS JOIN LATERAL (
    SELECT r.tenant_id, r.pipeline_id, r.pipeline_version, r.created_at, r.started_at, r.reopened_at,
        r.task_run_count, r.error, r.error_code, r.traceparent
    FROM runs AS r WHERE r.id = e.run_id AND r.pipeline_id IS NOT NULL OFFSET 0
) AS r
"""

_OF_RUN = "SELECT r.pipeline_id, r.traceparent FROM runs AS r WHERE r.id = e.run_id OFFSET 0"

# An attempt that completed is its task run's row; one that ended badly has a row of its own.
_ATTEMPTS = f"""
SELECT e.run_id, e.task_run_id, e.attempt, t.tenant_id, t.step_id, t.task_id, t.map_index,
    r.pipeline_id, r.traceparent,
    CASE WHEN e.type = 'task_run.completed' THEN 'completed' ELSE a.status END AS outcome,
    CASE WHEN e.type = 'task_run.completed' THEN t.worker ELSE a.worker END AS worker,
    CASE WHEN e.type = 'task_run.completed' THEN t.started_at ELSE a.started_at END AS started_at,
    CASE WHEN e.type = 'task_run.completed' THEN e.at ELSE a.finished_at END AS ended_at,
    a.error, a.error_code,
    CASE WHEN t.attempt = e.attempt AND t.started_at >= t.queued_at
        THEN CAST(1000 * extract(epoch FROM t.started_at - t.queued_at) AS double precision) END AS queued_ms
FROM ({stretch.EVENTS}) AS e CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.step_id, t.task_id, t.map_index, t.attempt, t.worker, t.queued_at, t.started_at
    FROM task_runs AS t WHERE t.run_id = e.run_id AND t.id = e.task_run_id AND {kind_sql.IS_CALLED} OFFSET 0
) AS t CROSS JOIN LATERAL ({_OF_RUN}) AS r LEFT JOIN LATERAL (
    SELECT a.status, a.worker, a.error, a.error_code, a.started_at, a.finished_at FROM attempts AS a
    WHERE a.run_id = e.run_id AND a.task_run_id = e.task_run_id AND a.number = e.attempt
        AND e.type <> 'task_run.completed' OFFSET 0
) AS a ON true
WHERE CASE WHEN e.type = 'task_run.completed'
    THEN t.attempt = e.attempt AND t.started_at IS NOT NULL
        AND NOT coalesce(CAST(e.data ->> 'cached' AS boolean), false)
    ELSE a.started_at IS NOT NULL END
"""


def _id_of(ordinal: str) -> str:
    digits = f"lpad(to_hex(CAST({ordinal} AS integer)), 6, '0')"
    return f"CAST(left(CAST(e.run_id AS text), 30) || {digits} AS uuid)"


# One event is about all task runs that were cancelled together; of those, only what had begun was an attempt.
_CANCELLED_ATTEMPTS = f"""
SELECT e.run_id, t.id AS task_run_id, t.attempt, t.tenant_id, t.step_id, t.task_id, t.map_index,
    r.pipeline_id, r.traceparent, 'cancelled' AS outcome, t.worker, t.started_at, e.at AS ended_at,
    CAST(NULL AS jsonb) AS error, CAST(NULL AS text) AS error_code,
    CAST(NULL AS double precision) AS queued_ms
FROM ({stretch.EVENTS}) AS e CROSS JOIN LATERAL jsonb_array_elements(e.data -> 'ordinals') AS o
CROSS JOIN LATERAL (
    SELECT t.* FROM task_runs AS t
    WHERE t.run_id = e.run_id AND {kind_sql.IS_CALLED} AND t.started_at IS NOT NULL AND t.status = 'cancelled'
        AND t.id BETWEEN {_id_of("o ->> 0")} AND {_id_of("coalesce(o ->> 1, o ->> 0)")} OFFSET 0
) AS t CROSS JOIN LATERAL ({_OF_RUN}) AS r
"""


def spans_of(tx: Transaction, stretch: stretch.EventStretch) -> Iterator[TraceSpan]:
    """The spans of what ended in a stretch, but of runs whose callers want no trace recorded."""
    for statement, types in ((_ATTEMPTS, _ATTEMPT_ENDS), (_CANCELLED_ATTEMPTS, _CANCELLED)):
        for row in tx.execute(statement, {**stretch.parameters, "types": types}):
            if spans.is_recorded(row.traceparent):
                yield spans.of_attempt(row)
    for row in tx.execute(_RUNS, {**stretch.parameters, "types": _RUN_ENDS}):
        if spans.is_recorded(row.traceparent):
            yield spans.of_run(row)
