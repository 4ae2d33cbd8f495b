"""The moves of a run's status. Each is one guarded UPDATE; False means the run had moved on already."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids, rules
from pipeweave.orchestrator import maintenance, states
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.run_header import RunHeader
from pipeweave.orchestrator.states import RunStatus
from pipeweave.orchestrator.task_run import TaskRun

_NOT_REOPENED = "reopened_at IS NULL"


def _move(
    tx: Transaction, run_id: UUID, to: RunStatus, error: dict[str, Any] | None = None, where: str = "true"
) -> bool:
    parameters: dict[str, Any] = {"run_id": run_id, "now": tx.now}
    if error is not None:
        parameters |= {"error": orjson.dumps(error).decode(), "code": error["code"]}
    moving = _move_sql(to, has_error=error is not None, where=where)
    row = tx.execute(f"WITH {moving} {MOVED}", parameters).one()
    if to.is_final and row.has_moved and row.is_awaited:
        maintenance.run_ended(tx)
    return bool(row.has_moved)


def _move_sql(to: RunStatus, *, has_error: bool = False, where: str = "true") -> str:
    """The only UPDATE of a run's status after its creation, with its event, as common table expressions."""
    finished = ", finished_at = :now" if to.is_final else ""
    failed, data = "", "CAST(NULL AS jsonb)"
    if has_error:
        failed = ", error = CAST(:error AS jsonb), error_code = :code"
        data = "jsonb_build_object('error', m.error ->> 'message', 'errorCode', m.error_code)"
    guard = ", ".join(f"'{each}'" for each in states.run_before(to))
    return f"""run AS (
            UPDATE runs SET status = '{to.value}'{finished}{failed}
            WHERE id = :run_id AND status IN ({guard}) AND {where} RETURNING id, error, error_code
        ), run_logged AS (
            INSERT INTO events (run_id, at, type, data)
            SELECT m.id, :now, 'run.{to.value}', {data} FROM run AS m
        )"""


# What a statement with `_move_sql` ends with: whether the run moved, and whether anyone waits for its end.
MOVED = f"SELECT EXISTS (SELECT 1 FROM run) AS has_moved, {maintenance.IS_AWAITED} AS is_awaited"

# For `task_runs.complete_last`: the run ends well with the task run that just did.
# A run that was reopened has to be looked at as a whole.
COMPLETED_WITH_ITS_END = _move_sql(
    RunStatus.COMPLETED, where=f"EXISTS (SELECT 1 FROM moved) AND {_NOT_REOPENED}"
)


def lock(tx: Transaction, run_id: UUID) -> None:
    """Take the run's row before any of its task runs': who ends a run goes on to lock all of those."""
    tx.execute("SELECT 1 FROM runs AS r WHERE r.id = :id FOR UPDATE", {"id": run_id})
    tx.catch_up()


def fail(tx: Transaction, run: RunHeader, failed: TaskRun) -> bool:
    """End a run whose step failed."""
    error = {
        "code": "STEP_FAILED",
        "message": f"step {failed.step_id} failed",
        "stepId": failed.step_id,
        "taskRunId": ids.show(ids.TASK_RUN, failed.id),
    }
    return _move(tx, run.id, RunStatus.FAILED, error)


def time_out(tx: Transaction, run_id: UUID, code: str, message: str) -> bool:
    """End a run that took too long."""
    return _move(tx, run_id, RunStatus.FAILED, {"code": code, "message": message})


_STATUSES = "SELECT t.status, count(*) FROM task_runs AS t WHERE t.run_id = :run_id GROUP BY t.status"


def finish(tx: Transaction, run: RunHeader) -> bool:
    """End a run whose end steps are all final."""
    # A failure would have ended it at once, so that nothing needs counting, unless it was reopened since.
    if run.failure_mode == rules.FAIL_FAST and _move(tx, run.id, RunStatus.COMPLETED, where=_NOT_REOPENED):
        return True
    rows: list[Any] = list(tx.execute(_STATUSES, {"run_id": run.id}))
    counts: dict[str, int] = {row[0]: row[1] for row in rows}
    status = RunStatus(rules.final_run_status(run.failure_mode, counts))
    failed = sum(counts.get(each, 0) for each in rules.FAILED)
    error = {"code": "STEP_FAILED", "message": f"{failed:,} task runs failed"} if failed else None
    return _move(tx, run.id, status, error)


def cancel(tx: Transaction, run_id: UUID, reason: str) -> bool:
    """Cancel an open run."""
    return _move(tx, run_id, RunStatus.CANCELLED, {"code": "CANCELLED", "message": reason})
