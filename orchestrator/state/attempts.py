"""Ends failed attempts: the task run waits for its next attempt, for the run that takes care of its error, or
fails for good with a dead letter.

Where the step says so, it does not fail for good: it gets further attempts, and the caller pauses the run.

One statement per outcome writes the task run's move, its event, the attempt's record and, when no attempt is
left, the dead letter. So each task run that has no attempt left, and failed, has exactly one dead letter.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import orjson

from pipeweave.authoring.raised import users_traceback
from pipeweave.orchestrator.domain.failure import Failure, Outcome, fingerprint
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.state import handled_errors, keys_released, run_transitions, waited
from pipeweave.orchestrator.state.ended_attempts import ENDED, OF_THE_ATTEMPT, archived, ended_row
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.rows import read
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, OneOf
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import StepRetry, StepSpec

log = logging.getLogger(__name__)

# The delay (ms) before the attempt that replaces one whose worker was lost or stopped. The task did not fail:
# waiting gains nothing.
AT_ONCE_MS = 0
# Why another attempt follows that nothing had promised: people resume the run.
EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class EndedAttempts:
    """The task runs of failed attempts: failed, with another attempt, or with an error of which a run takes
    care.

    Args:
        final: task runs that have no attempt left.
        retried: task runs that wait for their next attempt.
        due: the ids of `retried` task runs without a delay.
        exhausted: of `retried`, those that had no attempt left, and their failures: the run has to be paused
            before they are released. Its row is locked.
        handled: task runs that wait for the run that takes care of their error.
    """

    final: list[TaskRun]
    retried: list[TaskRun]
    due: list[UUID]
    exhausted: list[tuple[TaskRun, Failure]]
    handled: list[TaskRun] = field(default_factory=list)


def end(
    tx: Transaction,
    run: RunHeader,
    failures: Sequence[tuple[TaskRun, Failure]],
    *,
    max_retry_delay_ms: int | None,
    chance: Callable[[], float] = random.random,
) -> EndedAttempts:
    """End failed attempts. Attempts that are fenced are left out of the answer.

    Args:
        run: the run of all these task runs.
        failures: the task runs as they were claimed, and how their attempts failed.
        max_retry_delay_ms: no retry waits for longer (ms), whatever its task says; None for no such limit.
        chance: gives a number in [0, 1) for the jitter of a delay.
    """
    if not failures:
        return EndedAttempts([], [], [], [])
    failures = [(task_run, _tolerated(run, task_run, failure)) for task_run, failure in failures]
    rows = _look(tx, run.id, failures)
    exhaustion = _Exhaustion(tx, run)
    retries: list[dict[str, Any]] = []
    finals: list[dict[str, Any]] = []
    handled: list[dict[str, Any]] = []
    for task_run, failure in failures:
        row = rows.get(task_run.id)
        if row is None or row.attempt != task_run.attempt or row.status != task_run.status.value:
            continue
        if task_run.worker is not None and row.worker != task_run.worker:
            continue  # another process has the same attempt: the claim of this one was lost in a failover
        if handled_errors.is_handled(row) and not failure.follows_rule:
            continue  # its error is being taken care of
        delay_ms = _next_delay(row, failure, _step(run, task_run).retry, max_retry_delay_ms, chance)
        if delay_ms is not None:
            retries.append(_retry_row(run, task_run, row, failure, delay_ms))
        elif (rule := handled_errors.rule_for(run, task_run, failure)) is not None:
            handled.append(handled_errors.row_of(tx, task_run, row, failure, rule))
        elif exhaustion.pauses(task_run, row, failure):
            retries.append(_further_row(run, task_run, row, failure))
        else:
            finals.append(_final_row(task_run, row, failure, tx.new_id() if failure.is_dead else None))
    retried = _write(tx, run.id, _RETRY, retries)
    due = [UUID(each["id"]) for each in retries if each["delay_ms"] == 0]
    final = _write(tx, run.id, _FINAL, finals)
    waiting = handled_errors.begin(tx, run, handled)
    keys_released.announce(tx, [*final, *waiting])
    tx.after_commit(lambda: _log(run, failures, {each.id for each in final}, retries, handled))
    return EndedAttempts(final, retried, due, exhaustion.failures, waiting)


@dataclass(slots=True)
class _Exhaustion:
    """Tells which task runs without an attempt left pause their run instead of failing.

    Args:
        failures: those task runs so far, with how their last attempts failed.
    """

    tx: Transaction
    run: RunHeader
    failures: list[tuple[TaskRun, Failure]] = field(default_factory=list)
    _is_open: bool | None = None

    def pauses(self, task_run: TaskRun, row: Any, failure: Failure) -> bool:
        """Whether a task run does."""
        # A standalone task has no run that people could resume. Without its task, or where its condition
        # cannot be decided, there is nothing to try again.
        is_called = row.current_version is not None and row.status != TaskStatus.PENDING
        if self.run.pipeline_id is None or not is_called:
            return False
        ordinal = self.run.plan.ordinals[task_run.step_id]
        if not self.run.plan.pauses(ordinal, row.on_exhausted) or not self._may_be_paused():
            return False
        self.failures.append((task_run, failure))
        return True

    def _may_be_paused(self) -> bool:
        """Whether the run is open. Its row is locked, so that it stays so."""
        if self._is_open is None:
            status = run_transitions.lock_status(self.tx, self.run.id)
            self._is_open = status in (RunStatus.RUNNING, RunStatus.PAUSED)
        return self._is_open


def _step(run: RunHeader, task_run: TaskRun) -> StepSpec:
    return run.plan[run.plan.ordinals[task_run.step_id]].step


def _tolerated(run: RunHeader, task_run: TaskRun, failure: Failure) -> Failure:
    """The failure, without a dead letter where its step is passed over: nobody need act."""
    is_tolerated = bool(run.plan.tolerated) and run.plan.ordinals[task_run.step_id] in run.plan.tolerated
    return replace(failure, is_dead=False) if is_tolerated else failure


def _log(
    run: RunHeader,
    failures: Sequence[tuple[TaskRun, Failure]],
    final: Collection[UUID],
    retries: Sequence[Mapping[str, Any]],
    handled: Sequence[Mapping[str, Any]],
) -> None:
    """Log each attempt that failed: an error when none follows, a warning with the delay when one does."""
    retried = {UUID(each["id"]): each for each in retries}
    rules = {UUID(each["id"]): each["data"]["rule"] for each in handled}
    for task_run, failure in failures:
        if task_run.id in final:
            if failure.handler_error is not None:
                log.error("error_handler.failed", extra={**names_of(run, task_run), **_codes(failure)})
            # A map fails because of its items, and each of those has its line.
            level = logging.ERROR if failure.is_dead else logging.WARNING
            _log_failure(level, "task_run.failed", run, task_run, failure, {})
        elif (row := retried.get(task_run.id)) is not None:
            if row["cause"] is not None:
                _log_failure(logging.ERROR, "task_run.exhausted", run, task_run, failure, {})
                continue
            more = {"max_attempts": row["max_attempts"], "retry_in_ms": row["delay_ms"]}
            _log_failure(logging.WARNING, "task_run.retrying", run, task_run, failure, more)
        elif (rule := rules.get(task_run.id)) is not None:
            _log_failure(logging.WARNING, "task_run.handling", run, task_run, failure, {"handler": rule})


def _codes(failure: Failure) -> dict[str, Any]:
    handler_error = failure.handler_error or {}
    return {
        "original_error": failure.code,
        "handler_error": handler_error.get("code"),
        "handler_run_id": handler_error.get("runId"),
    }


def _log_failure(
    level: int, event: str, run: RunHeader, task_run: TaskRun, failure: Failure, more: Mapping[str, Any]
) -> None:
    # A failure whose rule has run has its line from before.
    if failure.timeout_ms is not None and not failure.follows_rule:
        limit = {"timeout_ms": failure.timeout_ms, "error_code": failure.code}
        log.warning("task_run.timeout_exceeded", extra={**names_of(run, task_run), **limit})
    what = {"error": failure.message, "error_code": failure.code, "error_type": failure.type}
    cause = failure.cause
    exc_info = None if cause is None else (type(cause), cause, users_traceback(cause))
    log.log(level, event, exc_info=exc_info, extra={**names_of(run, task_run), **what, **more})


# Locks the rows, so that the decision still holds when it is written.
_LOOK = f"""
SELECT t.id, t.status, t.attempt, t.max_attempts, t.worker, t.code_version, t.code_hash, t.started_at,
       t.dispatched_at, t.error_code,
       k.retry_backoff, k.retry_delay_ms, k.max_retry_delay_ms, k.retry_multiplier, k.retry_jitter,
       k.retry_on, k.on_exhausted, k.max_attempts AS usual_attempts, k.code_version AS current_version,
       k.code_hash AS current_hash
FROM {NAMED} JOIN task_runs AS t ON {by_key()}
    LEFT JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
ORDER BY t.id FOR UPDATE OF t
"""


def _look(tx: Transaction, run_id: UUID, failures: Sequence[tuple[TaskRun, Failure]]) -> Mapping[UUID, Any]:
    task_runs = [task_run.id for task_run, _ in failures]
    return {row.id: row for row in tx.execute(_LOOK, {"run_id": run_id, "ids": task_runs})}


def _next_delay(
    row: Any, failure: Failure, own: StepRetry | None, cap_ms: int | None, chance: Callable[[], float]
) -> int | None:
    """The delay (ms) before the next attempt; None when no attempt follows.

    Args:
        own: the retries of the step; None if it has those of its task.
    """
    if failure.follows_rule or row.current_version is None or row.status == TaskStatus.PENDING:
        return None  # the task is gone, or this is a map or a condition that cannot be decided
    if not failure.is_counted:
        return max(AT_ONCE_MS, failure.pause_ms)
    if row.attempt >= row.max_attempts:
        return None
    if failure.outcome in (Outcome.LOST, Outcome.INTERRUPTED):
        return AT_ONCE_MS
    policy = task_rows.policy_of(row, cap_ms) if own is None else task_rows.policy_of_step(own, cap_ms)
    if not policy.may_retry(failure.code, is_retryable=failure.retryable):
        return None
    return max(policy.delay_ms(row.attempt, chance()), failure.pause_ms)


# --- one statement per outcome ----------------------------------------------------------------------------

_MOVED_RETRY = Move(
    to=TaskStatus.PENDING,
    changes=""", attempt = t.attempt + 1, max_attempts = f.max_attempts,
    due_at = now() + f.delay_ms * interval '1 millisecond', code_version = f.next_version,
    code_hash = f.next_hash, worker = NULL, queued_at = NULL, claimed_at = NULL, started_at = NULL,
    heartbeat_at = NULL, suspected_at = NULL, progress = NULL, progress_message = NULL,
    dispatched_at = NULL, assets = NULL""",
    rows=by_key("f.id"),
    where="t.attempt = f.attempt",
    source=f"""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f({ENDED}, max_attempts integer,
        delay_ms bigint, next_version integer, next_hash text, cause text)""",
    event=MoveEvent(
        "'task_run.retrying'",
        f"""jsonb_build_object('outcome', m.outcome, 'error', m.message, 'errorCode', m.code,
        'nextAttempt', m.attempt, 'dueAt', m.due_at) || {waited.OF_A_FAILURE}
        || CASE WHEN m.cause IS NULL THEN '{{}}' ELSE jsonb_build_object('cause', m.cause) END""",
        attempt="m.ended",
    ),
    returning=f"{OF_THE_ATTEMPT}, t.due_at, f.cause",
).sql

_RETRY = f"WITH {_MOVED_RETRY}, {archived()} SELECT * FROM moved"

_MOVED_FINAL = Move(
    # The guard is that of `failed`: only an attempt that had begun becomes `timeout`.
    to=OneOf(
        "CASE WHEN f.outcome = 'timeout' AND f.is_begun THEN 'timeout' ELSE 'failed' END",
        (TaskStatus.FAILED,),
    ),
    changes=""", finished_at = greatest(:now, t.started_at), error = f.error, error_code = f.code,
    logs_path = f.logs_path, assets = NULL""",
    rows=by_key("f.id"),
    where="t.attempt = f.attempt",
    source=f"""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f({ENDED}, letter uuid, fingerprint text,
        record jsonb)""",
    event=MoveEvent(
        "CASE WHEN m.status = 'timeout' THEN 'task_run.timed_out' ELSE 'task_run.failed' END",
        f"""jsonb_build_object('outcome', m.outcome, 'error', m.message, 'errorCode', m.code)
            || {waited.OF_A_FAILURE}""",
    ),
    returning=f"{OF_THE_ATTEMPT}, f.letter, f.fingerprint, f.record",
).sql

# A dead letter has a copy of its task run's attempts, because it may outlive the partition of its run. An
# attempt whose error was taken care of has its record already.
_FINAL = f"""
WITH {_MOVED_FINAL}, {archived(" ON CONFLICT DO NOTHING")}, letters AS (
    INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, pipeline_id, step_id, task_id, kind,
        map_index, code_version, code_hash, attempts, status, input, input_path, item, error, error_code,
        fingerprint, history, failed_at)
    SELECT m.letter, r.tenant_id, m.run_id, m.id, r.pipeline_id, m.step_id, m.task_id, m.kind, m.map_index,
        m.code_version, m.code_hash, m.attempt, m.status, r.input, r.input_path, m.item, m.ended_error,
        m.code, m.fingerprint,
        coalesce((SELECT jsonb_agg(jsonb_build_object('attempt', a.number, 'status', a.status,
                'worker', a.worker, 'codeVersion', a.code_version, 'error', a.error,
                'errorCode', a.error_code, 'startedAt', a.started_at, 'finishedAt', a.finished_at)
                ORDER BY a.number)
            FROM attempts AS a WHERE a.run_id = m.run_id AND a.task_run_id = m.id AND a.number < m.ended),
            '[]'::jsonb) || m.record,
        :now
    FROM moved AS m JOIN runs AS r ON r.id = m.run_id WHERE m.letter IS NOT NULL
)
SELECT * FROM moved
"""


def _write(tx: Transaction, run_id: UUID, statement: str, rows: list[dict[str, Any]]) -> list[TaskRun]:
    if not rows:
        return []
    parameters = {"run_id": run_id, "rows": orjson.dumps(rows).decode(), "now": tx.now}
    return read(tx.execute(statement, parameters))


def _retry_row(
    run: RunHeader, task_run: TaskRun, row: Any, failure: Failure, delay_ms: int
) -> dict[str, Any]:
    is_pinned = run.plan.is_pinned
    return ended_row(task_run, row, failure) | {
        "max_attempts": row.max_attempts + (0 if failure.is_counted else 1),
        "delay_ms": delay_ms,
        "next_version": row.code_version if is_pinned else row.current_version,
        "next_hash": row.code_hash if is_pinned else row.current_hash,
        "cause": None,
    }


def _further_row(run: RunHeader, task_run: TaskRun, row: Any, failure: Failure) -> dict[str, Any]:
    """As many further attempts as its step says, or else its task: as after the retry of a dead letter."""
    own = _step(run, task_run).retry
    more = row.usual_attempts if own is None else own.attempts
    further = {"max_attempts": row.attempt + more, "cause": EXHAUSTED}
    return _retry_row(run, task_run, row, failure, AT_ONCE_MS) | further


def _final_row(task_run: TaskRun, row: Any, failure: Failure, letter: UUID | None) -> dict[str, Any]:
    record = {
        "attempt": task_run.attempt,
        "status": failure.outcome.value,
        "worker": row.worker,
        "codeVersion": row.code_version,
        "error": failure.to_json(),
        "errorCode": failure.code,
        "startedAt": row.started_at,
    }
    return ended_row(task_run, row, failure) | {
        "letter": None if letter is None else str(letter),
        "fingerprint": fingerprint(task_run.task_id, failure),
        "record": [record],
    }


_PREVIOUS = """
SELECT a.number, a.status, a.error ->> 'message' AS error, a.error_code, a.error -> 'details' AS details,
       a.finished_at
FROM attempts AS a WHERE a.run_id = :run_id AND a.task_run_id = :id ORDER BY a.number
"""


def previous_attempts(tx: Transaction, task_run: TaskRun) -> list[dict[str, Any]]:
    """The ended attempts of a task run, oldest first, in the form that its task sees:
    {attempt, status, error, errorCode, details, timestamp}.
    """
    rows = tx.execute(_PREVIOUS, {"run_id": task_run.run_id, "id": task_run.id})
    return [
        {
            "attempt": row.number,
            "status": row.status,
            "error": row.error,
            "errorCode": row.error_code,
            "details": row.details,
            "timestamp": iso(row.finished_at),
        }
        for row in rows
    ]
