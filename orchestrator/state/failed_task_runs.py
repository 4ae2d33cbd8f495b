"""Reads why the task runs of a run failed, for the error of the run."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import FAILED_TASK, TaskStatus, sql_in
from pipeweave.orchestrator.domain.step_failures import NAMED_CAUSES, Cause, Failures
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import rules

# The code of a map whose items failed: they are counted themselves.
MAP_ITEMS_FAILED = "MAP_ITEMS_FAILED"

# SQL: whether the failure of the task run `t` is none of its run; see `Plan.excused` and `excuses`.
IS_EXCUSED = f"""(t.status IN {sql_in(FAILED_TASK)} AND t.step_id = ANY(CAST(:tolerated AS text[]))
    OR t.status IN {sql_in([TaskStatus(each) for each in rules.FAILED])}
        AND (t.step_id = ANY(CAST(:held AS text[]))
            OR {kind_sql.IS_ITEM} AND t.step_id = ANY(CAST(:partial AS text[]))))"""


def excuses(run: RunHeader) -> dict[str, list[str]]:
    """The parameters of IS_EXCUSED; empty if the plan excuses no failure."""
    plan = run.plan
    partial = [plan[each].id for each, rule in plan.settling.items() if rule == rules.IS_PARTIAL]
    if not plan.excused and not partial:
        return {}
    return {
        "tolerated": [plan[each].id for each in sorted(plan.tolerated)],
        "held": [plan[each].id for each in sorted(plan.held)],
        "partial": partial,
    }


def _causes(further: str = "", is_counted: str = "") -> str:
    """The statement that reads causes.

    Args:
        further: SQL: what excludes more task runs.
        is_counted: SQL: what keeps a map whose items failed among the causes.
    """
    return f"""
WITH causes AS (
    SELECT t.step_id, t.error_code, count(*) AS failed, (array_agg(t.id ORDER BY t.id))[1] AS first,
        sum(count(*)) OVER () AS all_failed,
        sum(count(*) FILTER (WHERE t.status = 'cancelled')) OVER () AS all_cancelled
    FROM task_runs AS t
    WHERE t.run_id = :run_id AND t.status IN {sql_in([TaskStatus(each) for each in rules.FAILED])}
        AND NOT ({kind_sql.HAS_ITEMS} AND t.error_code IS NOT DISTINCT FROM '{MAP_ITEMS_FAILED}'{is_counted})
        {further}
    GROUP BY t.step_id, t.error_code ORDER BY failed DESC, first LIMIT {NAMED_CAUSES}
)
SELECT c.*, t.error ->> 'message' AS message FROM causes AS c
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
    return Failures(causes, int(rows[0].all_failed), int(rows[0].all_cancelled), of)
