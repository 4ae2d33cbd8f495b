"""Retries, discards and purges dead letters: task runs that failed with no attempt left.

attempts.py writes one dead letter for each such task run; a dead letter outlives the history of its run.
Retrying a standalone task makes a new task run; retrying a pipeline's step reopens its own run
(reopening.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.deadletters import parents, reopening
from pipeweave.orchestrator.deadletters.filters import OPEN, LetterFilter
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.triggered_by import REDRIVE, TriggeredBy
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values, keep_inline

# Discarding and purging by a filter take this many dead letters at once; a full batch means there may be
# more.
BATCH = 5_000
_UNKNOWN = TriggeredBy(REDRIVE)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The columns of a dead letter that a retry needs; none of them ever changes."""

    id: UUID
    tenant: str
    run_id: UUID
    task_run_id: UUID
    task_id: str
    is_standalone: bool
    input: Any
    input_path: str | None


@dataclass(frozen=True, slots=True)
class Retried:
    """The result of a retry: the run and the task run that continue, and the code version they use now."""

    letter_id: UUID
    run_id: UUID
    task_run_id: UUID
    code_version: int
    is_standalone: bool


# The SQL columns of a DeadLetter, in the order of its fields.
_LETTER_COLUMNS = """d.id, d.tenant_id, d.run_id, d.task_run_id, d.task_id,
    d.pipeline_id IS NULL AS is_standalone, d.input, d.input_path"""

_ONE = f"""
SELECT {_LETTER_COLUMNS}, d.retried_at, d.retry_run_id, d.retry_task_run_id, d.discarded_at
FROM dead_letters AS d WHERE d.tenant_id = :tenant AND d.id = :id
"""


def _require(tx: Transaction, tenant: str, letter_id: UUID) -> Any:
    row: Any = tx.execute(_ONE, {"tenant": tenant, "id": letter_id}).one_or_none()
    if row is None:
        shown = ids.show(ids.DEAD_LETTER, letter_id)
        raise NotFound(f"dead letter {shown} not found", dlqId=shown)
    return row


def _letter_of(row: Any) -> DeadLetter:
    """Make a DeadLetter from a row that starts with _LETTER_COLUMNS."""
    return DeadLetter(*row[:8])


# --- retrying ---------------------------------------------------------------------------------------------


# By dead letter: inputs that are in storage, as `stored_inputs` loads them before a transaction.
Inputs = Mapping[UUID, tuple[Any, KeptValue]]
NO_INPUTS: Inputs = {}


def find_open(tx: Transaction, tenant: str, letter_id: UUID) -> DeadLetter:
    """The dead letter, if it can still be retried.

    Raises:
        NotFound: the tenant has no such dead letter.
        Conflict: the dead letter was retried or discarded already.
    """
    _refuse_closed(row := _require(tx, tenant, letter_id))
    return _letter_of(row)


_ALL_OPEN = f"""
SELECT {_LETTER_COLUMNS} FROM dead_letters AS d
WHERE {{where}} AND {OPEN} AND d.id > :after AND d.id < :before ORDER BY d.id LIMIT :most
"""


def find_all_open(
    tx: Transaction,
    tenant: str,
    letter_filter: LetterFilter,
    *,
    before: UUID,
    after: UUID | None = None,
    most: int,
) -> list[DeadLetter]:
    """The oldest dead letters that match the filter and can still be retried.

    Args:
        before: only those with a lower id, such as that of a request: later ones are not meant.
        after: only those with a higher id; None begins.
    """
    where, parameters = letter_filter.sql(tenant)
    bounds = {"before": before, "after": after or UUID(int=0), "most": most}
    return [_letter_of(row) for row in tx.execute(_ALL_OPEN.format(where=where), {**parameters, **bounds})]


def stored_inputs(values: Values, letters: Sequence[DeadLetter]) -> Inputs:
    """Load the inputs that retries of these dead letters need from storage: call it outside of transactions.

    Raises:
        Conflict: an input is no longer in storage.
        Unavailable: storage cannot be reached.
    """
    inputs: dict[UUID, tuple[Any, KeptValue]] = {}
    for letter in letters:
        # A step of a pipeline runs again in its own run, which has the input.
        if letter.is_standalone and letter.input_path is not None:
            try:
                value = values.load(None, letter.input_path)
            except NotFound as error:
                raise Conflict(f"the input is no longer in storage: {error.detail}") from error
            inputs[letter.id] = value, values.keep(value, values.backends.choose(letter.tenant, None))
    return inputs


def retry(
    tx: Transaction, tenant: str, letter_id: UUID, inputs: Inputs = NO_INPUTS, *, by: str | None = None
) -> Retried:
    """Run a dead letter's task run again, with its task's current code and its original input.

    Args:
        inputs: what `stored_inputs` gives for this dead letter.
        by: who retries it; the run, or that of a standalone task, keeps that.

    Raises:
        NotFound: the tenant has no such dead letter.
        Conflict: the dead letter was retried or discarded already; its run was cancelled, or the run's
            history was dropped; or its task is no longer registered.
        Unavailable: nothing new is accepted during maintenance.
    """
    cause = TriggeredBy(REDRIVE, ids.show(ids.DEAD_LETTER, letter_id), by)
    retried = retry_of_run(tx, [find_open(tx, tenant, letter_id)], inputs, cause)
    if not retried:
        # Another transaction retried or discarded it between the SELECT and the lock.
        _refuse_closed(_require(tx, tenant, letter_id))
    return retried[0]


def retry_of_run(
    tx: Transaction,
    letters: Sequence[DeadLetter],
    inputs: Inputs = NO_INPUTS,
    cause: TriggeredBy = _UNKNOWN,
) -> list[Retried]:
    """Retry dead letters of one run. Dead letters that were retried or discarded meanwhile are left out.

    Raises:
        Conflict, Unavailable: as `retry`; nothing was changed.
    """
    if letters[0].is_standalone:
        return [each for letter in letters for each in _retry_standalone(tx, letter, inputs, cause)]
    return _retry_steps(tx, letters, cause)


# The run's row is locked before (store/lock_order.py), so this statement sees what the row's last holder did
# to the letters.
_LOCK = f"""
SELECT d.id FROM dead_letters AS d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {OPEN} ORDER BY d.id FOR UPDATE
"""


def _lock(tx: Transaction, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    still_open = set(tx.execute(_LOCK, {"ids": [each.id for each in letters]}).scalars())
    return [each for each in letters if each.id in still_open]


def _retry_steps(tx: Transaction, letters: Sequence[DeadLetter], cause: TriggeredBy) -> list[Retried]:
    run_id = letters[0].run_id
    maintenance_mode.admit(tx)
    run = run_headers.load(tx, run_id)
    above = parents.lock(tx, run)
    status = reopening.lock_run(tx, run, run_id)
    still_open = {each.task_run_id: each.id for each in _lock(tx, letters)}
    if run is None or not still_open:
        return []
    parents.reopen(tx, above, cause)
    # Marked before the run goes on: a map whose items cannot be laid out again writes a new dead letter at
    # once.
    for task_run_id, letter_id in still_open.items():
        _mark(tx, letter_id, run_id, task_run_id)
    return [
        Retried(still_open[each.id], run_id, each.id, each.code_version, is_standalone=False)
        for each in reopening.reopen(tx, run, status, still_open, cause)
    ]


_RUN_OPTIONS = """
SELECT r.priority, r.metadata,
    (SELECT t.idempotency_key FROM task_runs AS t WHERE t.run_id = r.id LIMIT 1) AS key
FROM runs AS r WHERE r.id = :id
"""


def _retry_standalone(
    tx: Transaction, letter: DeadLetter, inputs: Inputs, cause: TriggeredBy
) -> list[Retried]:
    if letter.input_path is None:
        value, kept = letter.input, keep_inline(letter.input)
    else:
        value, kept = inputs[letter.id]
    maintenance_mode.admit(tx)
    if not _lock(tx, [letter]):
        return []
    request = replace(_request(tx, letter), input=value, triggered_by=cause)
    # If another task run holds the idempotency key now, or has its result, that task run is the retry.
    [queued] = standalone_tasks.enqueue_kept(tx, letter.tenant, [request], [kept])
    version = task_rows.tasks(tx, letter.tenant, [letter.task_id])[letter.task_id].code_version
    run_id = ids.run_id_of(queued.task_run_id)
    _mark(tx, letter.id, run_id, queued.task_run_id)
    return [Retried(letter.id, run_id, queued.task_run_id, version, is_standalone=True)]


def _request(tx: Transaction, letter: DeadLetter) -> QueueRequest:
    """The request of a task run that failed; without its history, the task's own priority is used."""
    row: Any = tx.execute(_RUN_OPTIONS, {"id": letter.run_id}).one_or_none()
    if row is None:
        return QueueRequest(letter.task_id)
    return QueueRequest(letter.task_id, priority=row.priority, metadata=row.metadata, idempotency_key=row.key)


_MARK = """
UPDATE dead_letters SET retried_at = :now, retry_run_id = :run_id, retry_task_run_id = :task_run_id
WHERE id = :id
"""


def _mark(tx: Transaction, letter_id: UUID, run_id: UUID, task_run_id: UUID) -> None:
    parameters = {"id": letter_id, "run_id": run_id, "task_run_id": task_run_id, "now": tx.now}
    tx.execute(_MARK, parameters)


def _refuse_closed(row: Any) -> None:
    shown = ids.show(ids.DEAD_LETTER, row.id)
    if row.retried_at is not None:
        task_run = ids.show(ids.TASK_RUN, row.retry_task_run_id)
        raise Conflict(
            f"dead letter {shown} has already been retried",
            hint=f"its retry is task run {task_run}",
            dlqId=shown,
        )
    if row.discarded_at is not None:
        hint = "a discarded dead letter cannot be retried or discarded again"
        raise Conflict(f"dead letter {shown} was discarded", hint=hint, dlqId=shown)


# --- discarding and purging -------------------------------------------------------------------------------

_DISCARD = f"""
UPDATE dead_letters AS d SET discarded_at = :now, discard_reason = :reason
WHERE d.tenant_id = :tenant AND d.id = :id AND {OPEN}
"""


def discard(tx: Transaction, tenant: str, letter_id: UUID, reason: str | None = None) -> None:
    """Discard a dead letter: it can still be read, but no longer be retried.

    Raises:
        NotFound: the tenant has no such dead letter.
        Conflict: the dead letter was already retried or discarded.
    """
    parameters = {"tenant": tenant, "id": letter_id, "reason": reason, "now": tx.now}
    if not tx.execute(_DISCARD, parameters).rowcount:
        _refuse_closed(_require(tx, tenant, letter_id))


_DISCARD_MATCHING = """
UPDATE dead_letters AS u SET discarded_at = :now, discard_reason = :reason
WHERE u.id = ANY(ARRAY(
    SELECT d.id FROM dead_letters AS d WHERE {where} AND {open} ORDER BY d.id LIMIT :batch
    FOR UPDATE SKIP LOCKED))
"""


def discard_matching(
    tx: Transaction, tenant: str, letter_filter: LetterFilter, reason: str | None = None
) -> int:
    """Discard up to BATCH open dead letters that match the filter, except locked ones.

    Returns:
        How many were discarded; with BATCH there may be more.
    """
    where, parameters = letter_filter.sql(tenant)
    statement = _DISCARD_MATCHING.format(where=where, open=OPEN)
    return tx.execute(statement, {**parameters, "reason": reason, "now": tx.now, "batch": BATCH}).rowcount


# A locked row is being retried or discarded: SKIP LOCKED leaves it to the next call.
_PURGE = """
DELETE FROM dead_letters WHERE id = ANY(ARRAY(
    SELECT d.id FROM dead_letters AS d WHERE {where} ORDER BY d.id LIMIT :batch FOR UPDATE SKIP LOCKED))
"""


def purge(tx: Transaction, tenant: str, before: datetime) -> int:
    """Delete up to BATCH dead letters that failed before a time, open or not, except locked ones.

    Returns:
        How many were deleted; with BATCH there may be more.
    """
    where, parameters = LetterFilter(until=before).sql(tenant)
    return tx.execute(_PURGE.format(where=where), {**parameters, "batch": BATCH}).rowcount
