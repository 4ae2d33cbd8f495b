"""Changes the status of runs. Each verb is one guarded UPDATE; False means that the guard did not hold."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain import states, tracing
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.domain.facts import RunEnded, WaitBegan
from pipeweave.orchestrator.domain.log_names import names_of_run
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_ending import RunEnding
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.state import deployment_mode, failed_task_runs, waits
from pipeweave.orchestrator.state.task_transitions import logged
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import WITH_OUTPUT, rules

log = logging.getLogger(__name__)

_NOT_REOPENED = "reopened_at IS NULL"
# The last step of a paused run ends nothing: the resume looks whether it is over.
_NOT_PAUSED = "status <> 'paused'"


def _finish(
    tx: Transaction, run_id: UUID, to: RunStatus, error: dict[str, Any] | None = None, where: str = "true"
) -> bool:
    """End a run whose task runs are all final. False when the guard did not hold."""
    event = _event(to, has_error=error is not None)
    moving = f"{_move_sql(to, has_error=error is not None, where=where)}, {logged(event)}"
    return _end(tx, run_id, moving, error)


def end_early(tx: Transaction, run_id: UUID, to: RunStatus, error: dict[str, Any]) -> Event | None:
    """End a run that has open task runs.

    Args:
        to: failed or cancelled.
        error: {code, message, …}.

    Returns:
        The event of the end, which `cancelling.cancel_all` writes behind those of the task runs that end with
        the run: who follows the run up to its end misses nothing. None when the run had ended.
    """
    if not _end(tx, run_id, _move_sql(to, has_error=True), error):
        return None
    data = {
        "error": error["message"],
        "errorCode": error["code"],
        "taskRunId": error.get("taskRunId"),
        "by": error.get("by"),
    }
    return Event(
        run_id, f"run.{to.value}", data={key: each for key, each in data.items() if each is not None}
    )


def _end(tx: Transaction, run_id: UUID, moving: str, error: dict[str, Any] | None) -> bool:
    parameters: dict[str, Any] = {"run_id": run_id, "now": tx.now}
    if error is not None:
        parameters |= {"error": orjson.dumps(error).decode(), "code": error["code"]}
    row = tx.execute(f"WITH {moving} {MOVED}", parameters).one()
    if row.has_moved:
        announce_end(tx, run_id, row)
    return bool(row.has_moved)


def announce_end(tx: Transaction, run_id: UUID, row: Any) -> None:
    """Announce that a run ended.

    Args:
        row: the answer of the statement that ended the run, with the columns of AWAITED.
    """
    key = None if row.freed_key is None else (str(row.key_pipeline), str(row.freed_key))
    tx.announce(RunEnded(run_id, row.is_awaited, row.limited_tenant, key))
    if row.parent_task_run_id is not None:
        waits.child_ended(tx, row.parent_task_run_id, is_well=row.ended[2] in WITH_OUTPUT)
    if row.ended is not None:
        tx.after_commit(lambda: _log_end(run_id, *row.ended))


def announce_start(tx: Transaction, *runs: RunHeader) -> None:
    """Log after the commit that runs of pipelines started. Standalone tasks have lines of their ends alone:
    thousands of them may begin in one request.
    """
    started = [each for each in runs if each.pipeline_id is not None]
    if started and log.isEnabledFor(logging.INFO):
        tx.after_commit(lambda: _log_start(started))


def _log_start(runs: Sequence[RunHeader]) -> None:
    for run in runs:
        log.info("run.started", extra=names_of_run(run))


def _log_end(
    run_id: UUID,
    tenant: str,
    pipeline: str | None,
    status: str,
    seconds: float | None,
    code: Any,
    error: Any,
    traceparent: str | None,
) -> None:
    level = logging.INFO if status in (RunStatus.COMPLETED, RunStatus.CANCELLED) else logging.WARNING
    names = {"tenant": tenant, "pipeline_id": pipeline, "run_id": ids.show(ids.RUN, run_id)}
    names["trace_id"] = tracing.trace_id(run_id, traceparent)
    duration = None if seconds is None else round(seconds * 1000, 1)
    failure = {} if code is None else {"error_code": code, "error": error}
    log.log(level, f"run.{status}", extra={**names, "duration_ms": duration, **failure})


def _move_sql(to: RunStatus, *, has_error: bool = False, where: str = "true", at: str = ":now") -> str:
    """The only UPDATE that ends a run, as common table expressions."""
    failed = ", error = CAST(:error AS jsonb), error_code = :code" if has_error else ""
    guard = ", ".join(f"'{each}'" for each in states.run_before(to))
    # A run may fail or be cancelled while it is quiet; it does not end well so.
    woken = ", quiet_since = NULL" if to in (RunStatus.FAILED, RunStatus.CANCELLED) else ""
    return f"""run AS (
            UPDATE runs SET status = '{to.value}', finished_at = CAST({at} AS timestamptz){failed}{woken}
            WHERE id = :run_id AND status IN ({guard}) AND {where}
            RETURNING id, tenant_id, pipeline_id, status, error, error_code, started_at, finished_at,
                over_ms, traceparent, parent_task_run_id, concurrency_key
        )"""


def _event(to: RunStatus, *, has_error: bool = False) -> str:
    """The SELECT of the event of the end."""
    data = "CAST(NULL AS jsonb)"
    if has_error:
        data = """jsonb_strip_nulls(jsonb_build_object('error', m.error ->> 'message',
                'errorCode', m.error_code))"""
    return f"""SELECT m.id, m.finished_at, 'run.{to.value}', CAST(NULL AS uuid), CAST(NULL AS integer), {data}
        FROM run AS m"""


# Who waits for the end of the run: the maintenance mode; the tenant, if its active runs are limited; the runs
# of its key.
AWAITED = f"""{deployment_mode.IS_AWAITED} AS is_awaited,
    (SELECT n.id FROM run JOIN tenants AS n ON n.id = run.tenant_id
     WHERE n.max_active_runs IS NOT NULL AND run.pipeline_id IS NOT NULL
        OR run.concurrency_key IS NOT NULL) AS limited_tenant,
    (SELECT run.pipeline_id FROM run) AS key_pipeline, (SELECT run.concurrency_key FROM run) AS freed_key,
    (SELECT json_build_array(run.tenant_id, run.pipeline_id, run.status,
        extract(epoch FROM run.finished_at - run.started_at) - run.over_ms / 1000.0, run.error_code,
        run.error ->> 'message', run.traceparent) FROM run) AS ended,
    (SELECT run.parent_task_run_id FROM run) AS parent_task_run_id"""

# The SELECT behind `_move_sql`: whether the run moved, and who waits for its end.
MOVED = f"SELECT EXISTS (SELECT 1 FROM run) AS has_moved, {AWAITED}"


def completed_with(events: str, where: str, at: str) -> str:
    """SQL that completes a run together with its last task run, a row of `moved`, and writes the events.

    It does not complete a reopened run: `finish` must look at all of its task runs.

    Args:
        events: the SELECT of the events of its last task runs.
        where: SQL of a further condition.
        at: SQL of the time at which the run finished.
    """
    to = RunStatus.COMPLETED
    moving = _move_sql(to, where=f"EXISTS (SELECT 1 FROM moved) AND {_NOT_REOPENED} AND {where}", at=at)
    return f"{moving}, {logged(events, _event(to))}"


def lock(tx: Transaction, run_id: UUID) -> None:
    """Lock the run's row. It is locked before its task runs, because the verbs that end a run do so."""
    tx.execute("SELECT 1 FROM runs AS r WHERE r.id = :id FOR UPDATE", {"id": run_id})
    tx.catch_up()


_STATUSES = "SELECT t.status, count(*) FROM task_runs AS t WHERE t.run_id = :run_id GROUP BY t.status"
# For a plan in which some failures are excused: they count as if the steps were passed over.
_STATUSES_BUT_EXCUSED = f"""
SELECT CASE WHEN {failed_task_runs.IS_EXCUSED} THEN 'skipped' ELSE t.status END, count(*)
FROM task_runs AS t WHERE t.run_id = :run_id GROUP BY 1
"""


def finish(tx: Transaction, run: RunHeader) -> bool:
    """End a run whose end steps are all final. False when it has ended, or is reopened and not over."""
    # Under fail-fast a failure ends the run at once: nothing needs to be counted unless the run was reopened.
    if run.failure_mode == rules.FAIL_FAST and _finish(tx, run.id, RunStatus.COMPLETED, where=_NOT_REOPENED):
        return True
    if _finish_counted(tx, run, _NOT_REOPENED):
        return True
    # The run was reopened, perhaps a moment ago. Of the transactions that end its last task runs, the one
    # that gets this lock last sees all of them final.
    lock(tx, run.id)
    return _finish_counted(tx, run, "true")


def _finish_counted(tx: Transaction, run: RunHeader, where: str) -> bool:
    result = result_of(tx, run)
    return result is not None and _finish(tx, run.id, *result, f"{_NOT_PAUSED} AND {where}")


def result_of(tx: Transaction, run: RunHeader) -> tuple[RunStatus, dict[str, Any] | None] | None:
    """The status and the error with which a run ends, by the statuses of its task runs; None while one is
    open.
    """
    counts = _counts(tx, run)
    if not counts.keys() <= rules.FINAL:
        return None
    status = RunStatus(rules.final_run_status(run.failure_mode, counts))
    has_failed = not counts.keys().isdisjoint(rules.FAILED)
    failures = failed_task_runs.read(tx, run, of=sum(counts.values())) if has_failed else None
    return status, None if failures is None else failures.to_error()


def finish_ending(tx: Transaction, run_id: UUID, status: RunStatus, error: dict[str, Any] | None) -> bool:
    """End a run whose ending is over. False when it had ended."""
    return _finish(tx, run_id, status, error, "ending IS NOT NULL")


def _counts(tx: Transaction, run: RunHeader) -> dict[str, int]:
    """How many task runs a run has of each status."""
    parameters = failed_task_runs.excuses(run)
    statement = _STATUSES_BUT_EXCUSED if parameters else _STATUSES
    rows: list[Any] = list(tx.execute(statement, {"run_id": run.id, **parameters}))
    return {row[0]: row[1] for row in rows}


_STATUS = "SELECT r.status FROM runs AS r WHERE r.id = :id FOR UPDATE"


def lock_status(tx: Transaction, run_id: UUID) -> RunStatus | None:
    """Lock the run's row and return its status; None when its month was dropped."""
    status = tx.execute(_STATUS, {"id": run_id}).scalar_one_or_none()
    tx.catch_up()
    return None if status is None else RunStatus(status)


# The time limit of the run begins when it is admitted. The row of the run guards its pause: this statement
# comes after the lock on it.
_ADMIT = f"""
WITH run AS (
    UPDATE runs SET status = '{RunStatus.RUNNING.value}', started_at = :now,
        deadline_at = CAST(:now AS timestamptz) + CAST(:timeout_ms AS bigint) * interval '1 millisecond'
    WHERE id = :run_id AND status = '{RunStatus.PENDING.value}'
        AND NOT EXISTS (SELECT 1 FROM run_pauses AS p WHERE p.run_id = :run_id) RETURNING id
), run_logged AS (
    INSERT INTO events (run_id, at, type, data)
    SELECT m.id, :now, 'run.{RunStatus.RUNNING.value}', NULL FROM run AS m
)
SELECT EXISTS (SELECT 1 FROM run)
"""


def admit(tx: Transaction, run_id: UUID, *, timeout_ms: int | None) -> bool:
    """Start a pending run.

    Args:
        timeout_ms: the time limit of its pipeline (ms); None for no limit.
    """
    parameters = {"run_id": run_id, "now": tx.now, "timeout_ms": timeout_ms}
    return bool(tx.execute(_ADMIT, parameters).scalar_one())


# A pending run stays pending: it keeps its place in line. Its event says so.
_PAUSE = f"""
WITH run AS (
    UPDATE runs SET status = CASE WHEN status = '{RunStatus.PENDING.value}' THEN status
        ELSE '{RunStatus.PAUSED.value}' END
    WHERE id = :run_id AND status = ANY(CAST(:before AS text[]))
        AND NOT EXISTS (SELECT 1 FROM run_pauses AS p WHERE p.run_id = :run_id)
    RETURNING id, tenant_id, status
), noted AS (
    INSERT INTO run_pauses (run_id, tenant_id, paused_at, paused_by, reason)
    SELECT m.id, m.tenant_id, :now, :by, :reason FROM run AS m
), run_logged AS (
    INSERT INTO events (run_id, at, type, data)
    SELECT m.id, :now, 'run.paused', jsonb_strip_nulls(jsonb_build_object(
        'status', nullif(m.status, '{RunStatus.PAUSED.value}'),
        'by', CAST(:by AS text), 'reason', CAST(:reason AS text))) FROM run AS m
)
SELECT EXISTS (SELECT 1 FROM run)
"""


def pause(tx: Transaction, run_id: UUID, *, by: str | None, reason: str | None) -> bool:
    """Pause a run. The caller has locked its row (`lock_status`). False when it is paused or not open.

    Args:
        by: who pauses it; None if that is not known.
    """
    before = [*states.run_before(RunStatus.PAUSED), RunStatus.PENDING.value]
    parameters = {"run_id": run_id, "now": tx.now, "before": before, "by": by, "reason": reason}
    return bool(tx.execute(_PAUSE, parameters).scalar_one())


# A pause of a pending run took none of its time. A retried dead letter begins that time anew.
_RESUME = f"""
WITH ended AS (
    DELETE FROM run_pauses AS p WHERE p.run_id = :run_id RETURNING p.run_id, p.paused_at
), run AS (
    UPDATE runs AS r SET status = CASE WHEN r.status = '{RunStatus.PENDING.value}' THEN r.status
            ELSE '{RunStatus.RUNNING.value}' END,
        paused_ms = r.paused_ms + lost.ms, deadline_at = r.deadline_at + lost.ms * interval '1 millisecond'
    FROM ended AS e CROSS JOIN LATERAL (
        SELECT CAST(1000 * extract(epoch FROM greatest(interval '0', :now - e.paused_at)) AS bigint) AS ms
    ) AS lost
    WHERE r.id = :run_id AND r.id = e.run_id AND r.status = ANY(CAST(:before AS text[]))
    RETURNING r.id, r.status
), run_logged AS (
    INSERT INTO events (run_id, at, type, data)
    SELECT m.id, :now, 'run.resumed', jsonb_strip_nulls(jsonb_build_object(
        'status', nullif(m.status, '{RunStatus.RUNNING.value}'), 'by', CAST(:by AS text))) FROM run AS m
)
SELECT EXISTS (SELECT 1 FROM run)
"""


def resume(tx: Transaction, run_id: UUID, *, by: str | None) -> bool:
    """End the pause of a run. The caller has locked its row (`lock_status`). False when it is not paused.

    Args:
        by: who resumes it; None if that is not known.
    """
    before = [RunStatus.PAUSED.value, RunStatus.PENDING.value]
    parameters = {"run_id": run_id, "now": tx.now, "before": before, "by": by}
    return bool(tx.execute(_RESUME, parameters).scalar_one())


# The time limit starts anew. A run that is still open is only marked.
_REOPENED = """reopened_at = :now, paused_ms = 0, quiet_since = NULL,
    deadline_at = CAST(:now AS timestamptz) + (deadline_at - coalesce(reopened_at, started_at))
        - paused_ms * interval '1 millisecond'"""

_REOPEN = f"""
WITH run AS (
    UPDATE runs SET status = '{RunStatus.RUNNING.value}', finished_at = NULL, error = NULL,
        error_code = NULL, ending = NULL, {_REOPENED},
        over_ms = over_ms
            + CAST(1000 * extract(epoch FROM greatest(interval '0', :now - finished_at)) AS bigint)
    WHERE id = :run_id AND status = ANY(CAST(:before AS text[])) RETURNING id
), run_logged AS (
    INSERT INTO events (run_id, at, type, data)
    SELECT m.id, :now, 'run.reopened', jsonb_strip_nulls(jsonb_build_object('by', CAST(:by AS text)))
    FROM run AS m
)
SELECT EXISTS (SELECT 1 FROM run)
"""

_MARK = f"UPDATE runs SET {_REOPENED} WHERE id = :run_id"


def reopen(tx: Transaction, run_id: UUID, status: RunStatus, by: str | None = None) -> None:
    """Reopen a run because its dead letter is retried.

    Args:
        status: the run's status; the caller has locked the row.
        by: who retries it; None if that is not known.
    """
    if status is RunStatus.RUNNING:
        tx.execute(_MARK, {"run_id": run_id, "now": tx.now})
        return
    before = list(states.run_reopened_from(RunStatus.RUNNING))
    tx.execute(_REOPEN, {"run_id": run_id, "now": tx.now, "before": before, "by": by})


# --- the ending: what follows the last step ---------------------------------------------------------------

# A run has no attempts.
RUN_ATTEMPT = 1
_BEFORE_ENDING = ", ".join(f"'{each}'" for each in states.run_before(RunStatus.ERROR_HANDLING))
_BEGIN_ENDING = f"""
WITH run AS (
    UPDATE runs AS r SET status = '{RunStatus.ERROR_HANDLING.value}', ending = CAST(:ending AS jsonb),
        quiet_since = NULL
    WHERE r.id = :run_id AND r.status IN ({_BEFORE_ENDING}) RETURNING r.id, r.tenant_id
), unpaused AS (
    DELETE FROM run_pauses AS p USING run AS m WHERE p.run_id = m.id
), begun AS (
    INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at, data,
        created_at)
    SELECT m.id, m.id, m.tenant_id, :root, {RUN_ATTEMPT}, 'child', :now, :timeout_at, CAST(:data AS jsonb),
        :now
    FROM run AS m
), run_logged AS (
    INSERT INTO events (run_id, at, type, data)
    SELECT m.id, :now, 'run.ending', CAST(:shown AS jsonb) FROM run AS m
)
SELECT EXISTS (SELECT 1 FROM run)
"""


def begin_ending(tx: Transaction, run: RunHeader, ending: RunEnding) -> bool:
    """Let a run whose task runs have all ended begin its ending. False when it has ended, or not begun."""
    error = ending.error or {}
    shown = {
        "status": ending.status.value,
        "parts": list(ending.parts),
        "errorCode": error.get("code"),
        "error": error.get("message"),
        "by": error.get("by"),
    }
    parameters = {
        "run_id": run.id,
        "root": run.root_id,
        "ending": orjson.dumps(ending.to_json()).decode(),
        "data": orjson.dumps(_first_part(tx)).decode(),
        "shown": orjson.dumps({key: each for key, each in shown.items() if each is not None}).decode(),
        "timeout_at": tx.now + timedelta(milliseconds=run.plan.finally_ms),
        "now": tx.now,
    }
    if not tx.execute(_BEGIN_ENDING, parameters).scalar_one():
        return False
    tx.announce(WaitBegan(run.id, (run.id,)))
    return True


def _first_part(tx: Transaction) -> dict[str, Any]:
    """What the wait of a run has as data: the run of the part that is under way, its place, and the errors of
    those before, by their names.
    """
    return {"run": str(tx.new_id()), "round": 0, "try": 1, "part": 0, "errors": {}}
