"""Counts events in SQL: groups of runs, and of attempts, that began or ended in the same way.

What an event does not say is taken from the rows of its run, its task run and its attempt: when it was
created, queued and started. A wait is known of the last attempt of a task run, whose row says when it was
queued. What is counted twice is what happened twice: a run that was continued ended twice.
"""

from __future__ import annotations

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.telemetry.statistics import sizes
from pipeweave.orchestrator.telemetry.statistics.histogram import bucket_sql

ENDS = ("run.completed", "run.partial", "run.failed", "run.cancelled")
# The types of events that are counted.
TYPES = [
    *("run.created", "run.running", *ENDS),
    "task_run.completed",
    "task_run.retrying",
    "task_run.failed",
    "task_run.timed_out",
    "task_run.reopened",
    "task_runs.cancelled",
]

_NO_WAIT = "CAST(NULL AS text) AS wait_kind"
_MINUTE = "CAST(floor(extract(epoch FROM e.at) / 60) AS bigint) AS minute"

# SQL: the columns of a group that tell durations.
_DURATIONS = f"""
    {bucket_sql("w.took_ms")} AS took, {bucket_sql("w.wait_ms")} AS wait,
    sum(w.took_ms) AS took_sum, min(w.took_ms) AS took_min, max(w.took_ms) AS took_max,
    sum(w.wait_ms) AS wait_sum, min(w.wait_ms) AS wait_min, max(w.wait_ms) AS wait_max,
    {sizes.bucket_sql("w.size")} AS steps, sum(w.size) AS steps_sum
"""


def _ms(later: str, earlier: str) -> str:
    elapsed = f"1000 * extract(epoch FROM {later} - {earlier})"
    return f"CASE WHEN {earlier} IS NOT NULL THEN CAST(greatest(0, {elapsed}) AS double precision) END"


# A standalone task is a run without a pipeline; it is counted as a task. A child run is no run
# of its own. A run that was continued took as
# long as its last part.
_RUN_TOOK = f"""
CASE WHEN e.type IN {ENDS} AND r.started_at IS NOT NULL THEN CAST(greatest(0, 1000 * extract(epoch FROM
    e.at - CASE WHEN r.reopened_at <= e.at THEN r.reopened_at ELSE r.started_at END) - r.paused_ms)
    AS double precision) END
"""

# OFFSET 0 keeps the planner from joining whole tables: the row of each event is looked up by its key.
_RUNS = f"""
SELECT r.tenant_id, CAST(NULL AS text) AS task_id, r.pipeline_id, {_MINUTE}, e.type,
    CAST(NULL AS text) AS outcome, CAST(NULL AS text) AS code, false AS is_again,
    e.type = 'run.running' OR (e.type = 'run.created' AND e.data ->> 'status' IS NULL) AS is_started,
    {_RUN_TOOK} AS took_ms,
    CASE WHEN e.type = 'run.running' THEN {_ms("e.at", "r.created_at")}
         WHEN e.type = 'run.created' AND e.data ->> 'status' IS NULL THEN 0 END AS wait_ms,
    CASE WHEN e.type IN {ENDS} THEN r.task_run_count END AS size, {_NO_WAIT}
FROM e CROSS JOIN LATERAL (
    SELECT r.tenant_id, r.pipeline_id, r.created_at, r.started_at, r.reopened_at, r.paused_ms,
        r.task_run_count
    FROM runs AS r WHERE r.id = e.run_id AND r.pipeline_id IS NOT NULL AND r.parent_run_id IS NULL OFFSET 0
) AS r
WHERE e.type LIKE 'run.%'
"""

_IS_CACHED = "coalesce(CAST(e.data ->> 'cached' AS boolean), false)"
# An attempt that never began is none.
_OUTCOME = f"""
CASE e.type WHEN 'task_run.reopened' THEN 'redriven'
    WHEN 'task_run.completed' THEN CASE WHEN {_IS_CACHED} THEN 'cached' ELSE 'completed' END
    ELSE CASE WHEN a.number IS NOT NULL THEN e.data ->> 'outcome' END END
"""
_TASK_TOOK = f"""
CASE WHEN e.type = 'task_run.completed'
    THEN CASE WHEN t.attempt = e.attempt AND NOT {_IS_CACHED} THEN {_ms("e.at", "t.started_at")} END
    ELSE {_ms("a.finished_at", "a.started_at")} END
"""
_TASK_WAIT = f"""
CASE WHEN t.attempt = e.attempt AND e.type IN ('task_run.completed', 'task_run.failed', 'task_run.timed_out')
        AND NOT {_IS_CACHED} AND t.started_at IS NOT NULL
    THEN {_ms("t.started_at", "t.queued_at")} END
"""

_ONES = f"""
SELECT t.tenant_id, t.task_id, CAST(NULL AS text) AS pipeline_id, {_MINUTE}, e.type, {_OUTCOME} AS outcome,
    e.data ->> 'errorCode' AS code, e.type = 'task_run.completed' AND e.attempt > 1 AS is_again,
    false AS is_started, {_TASK_TOOK} AS took_ms, {_TASK_WAIT} AS wait_ms, CAST(NULL AS integer) AS size,
    {_NO_WAIT}
FROM e CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.task_id, t.attempt, t.queued_at, t.started_at
    FROM task_runs AS t WHERE t.run_id = e.run_id AND t.id = e.task_run_id AND {kind_sql.IS_CALLED} OFFSET 0
) AS t LEFT JOIN LATERAL (
    SELECT a.number, a.started_at, a.finished_at FROM attempts AS a
    WHERE a.run_id = e.run_id AND a.task_run_id = e.task_run_id AND a.number = e.attempt
        AND e.type IN ('task_run.retrying', 'task_run.failed', 'task_run.timed_out') OFFSET 0
) AS a ON true
WHERE e.task_run_id IS NOT NULL
"""


def _id_of(ordinal: str) -> str:
    digits = f"lpad(to_hex(CAST({ordinal} AS integer)), 6, '0')"
    return f"CAST(left(CAST(e.run_id AS text), 30) || {digits} AS uuid)"


# One event is about all task runs that were cancelled together; of those, only what had begun was an attempt.
_CANCELLED = f"""
SELECT t.tenant_id, t.task_id, CAST(NULL AS text) AS pipeline_id, {_MINUTE}, e.type,
    'cancelled' AS outcome, e.data ->> 'errorCode' AS code, false AS is_again, false AS is_started,
    {_ms("e.at", "t.started_at")} AS took_ms, CAST(NULL AS double precision) AS wait_ms,
    CAST(NULL AS integer) AS size, {_NO_WAIT}
FROM e CROSS JOIN LATERAL jsonb_array_elements(e.data -> 'ordinals') AS o CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.task_id, t.started_at FROM task_runs AS t
    WHERE t.run_id = e.run_id AND {kind_sql.IS_CALLED} AND t.started_at IS NOT NULL AND t.status = 'cancelled'
        AND t.id BETWEEN {_id_of("o ->> 0")} AND {_id_of("coalesce(o ->> 1, o ->> 0)")} OFFSET 0
) AS t
WHERE e.type = 'task_runs.cancelled'
"""

# What ended a wait had come before: how late that was noticed.
_WAITS = f"""
SELECT t.tenant_id, CAST(NULL AS text) AS task_id, CAST(NULL AS text) AS pipeline_id, {_MINUTE},
    'wait' AS type, CAST(NULL AS text) AS outcome, CAST(NULL AS text) AS code, false AS is_again,
    false AS is_started, CAST(e.data ->> 'lateMs' AS double precision) AS took_ms,
    CAST(NULL AS double precision) AS wait_ms, CAST(NULL AS integer) AS size, e.data ->> 'wait' AS wait_kind
FROM e CROSS JOIN LATERAL (
    SELECT t.tenant_id FROM task_runs AS t WHERE t.run_id = e.run_id AND t.id = e.task_run_id OFFSET 0
) AS t
WHERE e.task_run_id IS NOT NULL AND e.data ->> 'lateMs' IS NOT NULL
"""

_GROUP = (
    "w.tenant_id, w.task_id, w.pipeline_id, w.minute, w.type, w.outcome, w.code, w.is_again, w.is_started,"
    " w.wait_kind"
)

_GROUPS = f"""
WITH e AS MATERIALIZED ({{events}})
SELECT w.*, k.service_id FROM (
    SELECT {_GROUP}, count(*) AS number, {_DURATIONS}
    FROM ({_RUNS} UNION ALL {_ONES} UNION ALL {_CANCELLED} UNION ALL {_WAITS}) AS w
    GROUP BY {_GROUP}, took, wait, steps
) AS w LEFT JOIN tasks AS k ON k.tenant_id = w.tenant_id AND k.id = w.task_id
"""


def groups_sql(events: str) -> str:
    """SQL: groups of what happened in the same minute: {tenant_id, minute, type, number} and the durations.

    Runs that were created, started (`is_started`) or ended have a `pipeline_id`. Attempts that ended have a
    `task_id`, `service_id`, `code`, `is_again` and `outcome`; that is None for a task run that failed without
    having begun. Waits that ended have a `wait_kind`, and took as long as they ended late.

    Args:
        events: SQL that selects the events, of the types in its parameter `types`.
    """
    return _GROUPS.replace("{events}", events)
