"""Lets one task run at a time execute under an idempotency key; task runs with the same key reuse its result.

A key of a task is one row, and the task run that is written into the row, the holder, may call its function.
A read and a separate write would let two task runs through. Other task runs with the key complete with the
result if there is one, or step back until the holder ends (key_waiters.py). The row stays with its holder
through retries and lost workers; a holder that fails leaves no result.

Keys are locked before runs, task runs and limits: see store/lock_order.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from pipeweave.errors import AttemptFenced, Deadlocked
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.facts import Name
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, KeyWait, TaskRun
from pipeweave.orchestrator.engine import key_waiters
from pipeweave.orchestrator.engine.key_sql import HOLDER, IS_OPEN, OF_TENANT
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.store.database import Transaction

# Tries to take a key: a try fails when another transaction writes the row between the read and the write.
TRIES = 5

# --- taking a key -----------------------------------------------------------------------------------------

_THIS = "c.tenant_id = :tenant AND c.task_id = :task AND c.key = :key"
_IS_HIT = "c.finished_at IS NOT NULL AND c.expires_at > :now"

# A row with a valid result is not locked.
_LOCK = f"SELECT 1 FROM idempotency_claims AS c WHERE {_THIS} AND NOT ({_IS_HIT}) FOR UPDATE"


def _take_sql(me: str) -> str:
    """SQL that writes task run `:id` into the key's row if `me` has a row, and gives the row as it was.

    A row that was inserted after the lock statement is not overwritten, because its holder was not checked.
    """
    return f"""
    WITH seen AS MATERIALIZED (
        SELECT c.task_run_id AS holder, c.claimed_at AS since, {_IS_HIT} AS is_hit, {IS_OPEN} AS is_open,
            h.status, h.status IS NOT NULL AND h.finished_at IS NULL AS is_unfinished,
            CAST(c.output AS text) AS output, c.output_path, c.output_size, c.output_hash, c.selected_next,
            c.assets
        FROM idempotency_claims AS c {HOLDER} WHERE {_THIS}
    ), me AS ({me}), taken AS (
        INSERT INTO idempotency_claims AS c (tenant_id, task_id, key, task_run_id, claimed_at)
        SELECT :tenant, :task, :key, :id, :now FROM me
        ON CONFLICT (tenant_id, task_id, key) DO UPDATE SET
            task_run_id = excluded.task_run_id, claimed_at = excluded.claimed_at, finished_at = NULL,
            expires_at = NULL, output = NULL, output_path = NULL, output_size = NULL, output_hash = NULL,
            selected_next = NULL, assets = NULL
        WHERE c.task_run_id = (SELECT s.holder FROM seen AS s)
        RETURNING 1
    )
    SELECT EXISTS (SELECT 1 FROM taken) AS is_taken, EXISTS (SELECT 1 FROM me) AS is_me, s.*
    FROM (VALUES (1)) AS one LEFT JOIN seen AS s ON true
    """


# The row of the task run keeps the key, for its next attempt and for readers.
_CLAIM = _take_sql(f"""
    UPDATE task_runs AS t SET idempotency_key = :key
    WHERE t.run_id = :run_id AND t.id = :id AND t.attempt = :attempt AND {status_is(TaskStatus.RUNNING)}
        AND (CAST(:worker AS text) IS NULL OR t.worker = :worker)
        AND NOT EXISTS (SELECT 1 FROM seen AS s WHERE s.is_hit OR (s.is_open AND s.holder <> :id))
    RETURNING t.id""")


def claim(tx: Transaction, tenant: str, task_run: TaskRun, key: str) -> Completion | KeyWait | None:
    """Let an attempt execute under a key.

    Args:
        tx: may be of `Database.statements`.
        task_run: it is running in this process.

    Returns:
        None when the attempt may execute; else the result of another task run, or the wait for the holder.

    Raises:
        AttemptFenced: the attempt is not this worker's any more.
    """
    ids = {
        "run_id": task_run.run_id,
        "id": task_run.id,
        "attempt": task_run.attempt,
        "worker": task_run.worker,
    }
    for _ in range(TRIES):
        row = _take(tx, _CLAIM, tenant, task_run.task_id, key, ids)
        if row.is_taken:
            return None
        if row.is_hit:
            chosen = None if row.selected_next is None else tuple(row.selected_next)
            return Completion(task_run, _kept(row), chosen, key, row.holder, row.assets)
        if row.is_open and row.holder != task_run.id:
            return KeyWait(task_run, key, row.holder, row.since)
        if not row.is_me:
            raise AttemptFenced("this worker no longer owns the attempt")
    raise Deadlocked(f"idempotency key {key[:80]!r} was claimed by other task runs again and again")


def _take(tx: Transaction, statement: str, tenant: str, task_id: str, key: str, ids: dict[str, Any]) -> Any:
    parameters = {"tenant": tenant, "task": task_id, "key": key, "now": tx.now}
    return tx.execute(statement, parameters | ids, lock=_LOCK).one()


def _kept(row: Any) -> KeptValue:
    # A row stores JSON null as NULL.
    inline = None if row.output_path is not None else row.output or "null"
    return KeptValue(inline, row.output_path, row.output_size, row.output_hash)


_RESERVE = _take_sql("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM seen AS s WHERE s.is_hit OR s.is_unfinished)")


def reserve(tx: Transaction, tenant: str, task_id: str, key: str, task_run_id: UUID) -> Any | None:
    """Take a key for a task run that is about to be written. Call it after `tx.hold()`.

    Returns:
        The task run that has the key: `holder` and its `status`. None when the new task run must be written:
        it has the key now, or will complete with a result whose task run was dropped.
    """
    for _ in range(TRIES):
        row = _take(tx, _RESERVE, tenant, task_id, key, {"id": task_run_id})
        if row.is_taken or (row.is_hit and row.status is None):
            return None
        if row.is_hit or row.is_unfinished:
            return row
    raise Deadlocked(f"idempotency key {key[:80]!r} was claimed by other task runs again and again")


# --- the outcomes of a turn -------------------------------------------------------------------------------


def lock(tx: Transaction, tenant: str, outcomes: Iterable[CallOutcome]) -> set[Name]:
    """Lock the keys of a turn's outcomes, before any other row.

    Returns:
        The keys that block task runs of this turn and under which no task run executes any more.
    """
    waiting = {_name(each) for each in outcomes if isinstance(each, KeyWait)}
    names = waiting | {_name(each) for each in outcomes if _is_new_result(each)}
    return waiting & key_waiters.lock(tx, tenant, names) if names else set()


def settle(
    tx: Transaction,
    run: RunHeader,
    outcomes: Sequence[CallOutcome],
    finished: Sequence[TaskRun],
    free: set[Name],
    touched: TouchedLimits,
) -> None:
    """Store results in the rows of their keys, let blocked task runs step back, and wake the task runs that
    waited for a key which is free now.

    Args:
        finished: task runs that this turn ended.
        free: what `lock` returned.
        touched: collects the tasks whose limits must be filled.
    """
    tenant = run.tenant
    waiting = [each for each in outcomes if isinstance(each, KeyWait)]
    results = [each for each in outcomes if isinstance(each, Completion) and _is_new_result(each)]
    if waiting:
        back = key_waiters.step_back(tx, run.id, waiting)
        touched.note(tenant, [each.task_id for each in back if each.is_limited])
    if results:
        done = {each.id for each in finished}
        results = [each for each in results if each.task_run.id in done]
        _finish(tx, tenant, results)
        free = free | {_name(each) for each in results}
    if free:
        touched.note(tenant, key_waiters.wake(tx, tenant, free))


def _is_new_result(outcome: CallOutcome) -> bool:
    return isinstance(outcome, Completion) and outcome.key is not None and outcome.cached_from is None


def _name(outcome: CallOutcome) -> Name:
    assert isinstance(outcome, KeyWait | Completion) and outcome.key is not None
    return outcome.task_run.task_id, outcome.key


# Copies the result of the task run, which is valid for the time that its task says.
_FINISH = f"""
UPDATE idempotency_claims AS c SET finished_at = :now,
    expires_at = CAST(:now AS timestamptz) + k.idempotency_ttl_seconds * interval '1 second',
    output = t.output, output_path = t.output_path, output_size = t.output_size, output_hash = t.output_hash,
    selected_next = t.selected_next, assets = t.assets
FROM {NAMED} JOIN task_runs AS t ON {by_key()}
    CROSS JOIN LATERAL (SELECT k.idempotency_ttl_seconds FROM tasks AS k
        WHERE k.tenant_id = t.tenant_id AND k.id = t.task_id LIMIT 1) AS k
WHERE {OF_TENANT} AND c.tenant_id = t.tenant_id
    AND c.task_id = t.task_id AND c.key = t.idempotency_key AND c.task_run_id = t.id AND c.finished_at IS NULL
"""


def _finish(tx: Transaction, tenant: str, results: Sequence[Completion]) -> None:
    if results:
        done = [each.task_run for each in results]
        run_id, task_runs = done[0].run_id, sorted(each.id for each in done)
        tx.execute(_FINISH, {"run_id": run_id, "ids": task_runs, "tenant": tenant, "now": tx.now})
