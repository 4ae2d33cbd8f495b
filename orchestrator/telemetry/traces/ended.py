"""Reads what has ended in a stretch of the event log: runs, attempts of task runs, and waits."""

from __future__ import annotations

from collections.abc import Iterator

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.waits import CHILD
from pipeweave.orchestrator.feed import stretch
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.telemetry.traces import spans
from pipeweave.orchestrator.telemetry.traces.spans import TraceSpan
from pipeweave.spec.kinds import BODY, WAIT

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


# A step that only waits has no attempt of a task: its wait is its span. A call that has suspended itself has
# both; the event of its end says how long it waited.
_IS_WAIT = kind_sql.kind_in((WAIT, BODY))
_IS_BODY = kind_sql.kind_in((BODY,))
_WAIT_KIND = f"coalesce(e.data ->> 'wait', CASE WHEN {_IS_BODY} THEN '{CHILD}' END) AS wait_kind"
_WAITS = f"""
SELECT e.run_id, e.task_run_id, e.attempt, t.tenant_id, t.step_id, t.map_index, NOT {_IS_WAIT} AS is_called,
    r.pipeline_id, r.traceparent, {_WAIT_KIND},
    CASE WHEN e.type = 'task_run.completed' THEN 'completed' ELSE e.data ->> 'outcome' END AS outcome,
    CASE WHEN {_IS_WAIT} THEN t.started_at
        ELSE e.at - CAST(e.data ->> 'waitedMs' AS bigint) * interval '1 millisecond' END AS started_at,
    e.at AS ended_at, e.data ->> 'error' AS error, e.data ->> 'errorCode' AS error_code
FROM ({stretch.EVENTS}) AS e CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.step_id, t.map_index, t.kind, t.attempt, t.started_at FROM task_runs AS t
    WHERE t.run_id = e.run_id AND t.id = e.task_run_id OFFSET 0
) AS t CROSS JOIN LATERAL ({_OF_RUN}) AS r
WHERE CASE WHEN {_IS_WAIT} THEN t.attempt = e.attempt AND t.started_at IS NOT NULL
        AND NOT coalesce(CAST(e.data ->> 'cached' AS boolean), false)
    ELSE e.data ->> 'waitedMs' IS NOT NULL END
"""
_CANCELLED_WAITS = f"""
SELECT e.run_id, t.id AS task_run_id, t.attempt, t.tenant_id, t.step_id, t.map_index, false AS is_called,
    r.pipeline_id, r.traceparent, {_WAIT_KIND}, 'cancelled' AS outcome, t.started_at, e.at AS ended_at,
    CAST(NULL AS text) AS error, CAST(NULL AS text) AS error_code
FROM ({stretch.EVENTS}) AS e CROSS JOIN LATERAL jsonb_array_elements(e.data -> 'ordinals') AS o
CROSS JOIN LATERAL (
    SELECT t.* FROM task_runs AS t
    WHERE t.run_id = e.run_id AND {_IS_WAIT} AND t.started_at IS NOT NULL AND t.status = 'cancelled'
        AND t.id BETWEEN {_id_of("o ->> 0")} AND {_id_of("coalesce(o ->> 1, o ->> 0)")} OFFSET 0
) AS t CROSS JOIN LATERAL ({_OF_RUN}) AS r
"""


def spans_of(tx: Transaction, stretch: stretch.EventStretch) -> Iterator[TraceSpan]:
    """The spans of what ended in a stretch, but of runs whose callers want no trace recorded."""
    for statement, types, span_of in (
        (_ATTEMPTS, _ATTEMPT_ENDS, spans.of_attempt),
        (_CANCELLED_ATTEMPTS, _CANCELLED, spans.of_attempt),
        (_WAITS, _ATTEMPT_ENDS, spans.of_wait),
        (_CANCELLED_WAITS, _CANCELLED, spans.of_wait),
        (_RUNS, _RUN_ENDS, spans.of_run),
    ):
        for row in tx.execute(statement, {**stretch.parameters, "types": types}):
            if spans.is_recorded(row.traceparent):
                yield span_of(row)
