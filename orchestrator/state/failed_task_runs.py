"""Reads why the task runs of a run failed, for the error of the run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.plan import MAP_ITEMS_FAILED
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import FAILED_TASK, TaskStatus, sql_in
from pipeweave.orchestrator.domain.step_failures import (
    MOST_LISTED,
    MOST_OF_A_CAUSE,
    NAMED_CAUSES,
    Cause,
    Failures,
    listed,
)
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import rules

# SQL: whether the failure of the task run `t` is none of its run; see `Plan.excused` and `excuses`. A map
# that completed with an error was taken care of, and so were its items.
IS_EXCUSED = f"""(t.status IN {sql_in(FAILED_TASK)} AND t.step_id = ANY(CAST(:tolerated AS text[]))
    OR t.status IN {sql_in([TaskStatus(each) for each in rules.FAILED])}
        AND (t.step_id = ANY(CAST(:held AS text[]))
            OR {kind_sql.IS_ITEM} AND t.step_id = ANY(CAST(:partial AS text[]))
            OR t.step_id IN (SELECT h.step_id FROM task_runs AS h WHERE h.run_id = :run_id
                AND h.id = ANY(CAST(:handled_maps AS uuid[]))
                AND h.status = 'completed' AND h.error_code IS NOT NULL)))"""


def excuses(run: RunHeader) -> dict[str, Any]:
    """The parameters of IS_EXCUSED, beside `:run_id`; empty if the plan excuses no failure."""
    plan = run.plan
    partial = [plan[each].id for each, rule in plan.settling.items() if rule == rules.IS_PARTIAL]
    if not plan.excused and not partial and not plan.handled_maps:
        return {}
    return {
        "tolerated": [plan[each].id for each in sorted(plan.tolerated)],
        "held": [plan[each].id for each in sorted(plan.held)],
        "partial": partial,
        "handled_maps": [ids.task_run_id(run.id, each) for each in sorted(plan.handled_maps)],
    }


def _causes(further: str = "", is_counted: str = "") -> str:
    """The statement that reads causes.

    Args:
        further: SQL: what excludes more task runs.
        is_counted: SQL: what keeps a map whose items failed among the causes.
    """
    failed = f"""t.run_id = :run_id AND t.status IN {sql_in([TaskStatus(each) for each in rules.FAILED])}
        AND NOT ({kind_sql.HAS_ITEMS}
            AND t.error_code IS NOT DISTINCT FROM '{MAP_ITEMS_FAILED}'{is_counted}){further}"""
    return f"""
WITH causes AS (
    SELECT t.step_id, t.error_code, count(*) AS failed, (array_agg(t.id ORDER BY t.id))[1] AS first,
        sum(count(*)) OVER () AS all_failed,
        sum(count(*) FILTER (WHERE t.status = 'cancelled')) OVER () AS all_cancelled
    FROM task_runs AS t WHERE {failed}
    GROUP BY t.step_id, t.error_code ORDER BY failed DESC, first LIMIT {NAMED_CAUSES}
), listed AS (
    SELECT t.step_id, t.id, t.map_index, t.error_code,
        left(t.error ->> 'message', {MOST_OF_A_CAUSE}) AS message
    FROM task_runs AS t WHERE {failed} ORDER BY t.finished_at, t.id LIMIT {MOST_LISTED}
)
SELECT c.*, t.error ->> 'message' AS message,
    (SELECT jsonb_agg(jsonb_build_array(l.step_id, l.id, l.map_index, l.error_code, l.message))
     FROM listed AS l) AS failures
FROM causes AS c
    JOIN task_runs AS t ON t.run_id = :run_id AND t.id = c.first
ORDER BY c.failed DESC, c.first
"""


_CAUSES = _causes()
# The failed items of such a map are excused; where all failed, the map itself is the cause.
_CAUSES_BUT_EXCUSED = _causes(f"AND NOT {IS_EXCUSED}", " AND t.step_id <> ALL(CAST(:partial AS text[]))")


def read(tx: Transaction, run: RunHeader, *, of: int) -> Failures | None:
    """What failed in a run and is not excused; None when nothing did.

    Args:
        of: how many task runs the run has.
    """
    parameters = excuses(run)
    statement = _CAUSES_BUT_EXCUSED if parameters else _CAUSES
    rows: list[Any] = list(tx.execute(statement, {"run_id": run.id, **parameters}))
    if not rows:
        return None
    causes = [Cause(row.step_id, row.error_code, row.failed, row.first, row.message) for row in rows]
    first = [listed(step, UUID(id), *more) for step, id, *more in rows[0].failures]
    return Failures(causes, int(rows[0].all_failed), int(rows[0].all_cancelled), of, first)
