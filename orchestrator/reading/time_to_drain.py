"""Estimates when nothing of the whole deployment is open any more, from what ended of late."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.queueing.maintenance_mode import ACTIVE_RUNS, PAUSED_RUNS
from pipeweave.orchestrator.store.database import Transaction

# What ended in this minute and in the one before: one row of statistics for each of a tenant, by its key.
_LATELY = """s.tenant_id = t.id AND s.scope = 'tenant' AND s.id = '' AND s.grain = 'minute'
        AND s.at >= date_trunc('minute', now()) - interval '1 minute'"""

_PACE = f"""
SELECT o.runs, o.standalone, p.is_paused, e.runs AS ended_runs, e.attempts AS ended_attempts,
    1 + extract(epoch FROM now() - date_trunc('minute', now())) / 60 AS minutes
FROM (
    SELECT count(*) FILTER (WHERE r.pipeline_id IS NOT NULL) AS runs,
        count(*) FILTER (WHERE r.pipeline_id IS NULL) AS standalone {ACTIVE_RUNS}) AS o
CROSS JOIN (
    SELECT EXISTS (SELECT 1 FROM tenants AS t
        CROSS JOIN LATERAL (SELECT 1 {PAUSED_RUNS} LIMIT 1) AS p) AS is_paused) AS p
CROSS JOIN (
    SELECT coalesce(sum(r.number), 0) AS runs, coalesce(sum(a.number), 0) AS attempts
    FROM tenants AS t
    CROSS JOIN LATERAL (
        SELECT sum(s.completed + s.partial + s.failed + s.cancelled) AS number
        FROM run_stats AS s WHERE {_LATELY}) AS r
    CROSS JOIN LATERAL (
        SELECT sum(s.completed + s.failed + s.timed_out + s.lost) AS number
        FROM task_stats AS s WHERE {_LATELY}) AS a) AS e
"""


def empty_in_ms(tx: Transaction, task_runs: int) -> float | None:
    """About when the last open run ends, if it goes on as in the last minute (ms); None: nobody knows,
    because nothing ended, or because a run is paused and ends only after it is resumed.

    Args:
        task_runs: those of all tenants that run or wait; standalone tasks are among them.
    """
    row: Any = tx.execute(_PACE).one()
    if row.is_paused:
        return None
    # Statistics count the runs of pipelines; a standalone task goes with the other task runs.
    parts = (
        (int(row.runs), int(row.ended_runs)),
        (task_runs if row.standalone else 0, int(row.ended_attempts)),
    )
    if any(left and not ended for left, ended in parts):
        return None
    minutes = float(row.minutes)
    return round(60_000 * max(minutes * left / ended if left else 0.0 for left, ended in parts), 1)
