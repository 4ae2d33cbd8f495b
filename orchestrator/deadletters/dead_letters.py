"""Dead letters: task runs that failed for good, until a person has them tried again or puts them aside.

They are written by attempts.py, one for each such task run, and outlive the history of their run. Retrying
one gives a standalone task a new task run; a pipeline's step goes on in its own run (reopening.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.deadletters import reopening
from pipeweave.orchestrator.deadletters.filters import OPEN, LetterFilter
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction

# Discarding and purging by a condition take this many at once; while a batch is full, there are more.
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Letter:
    """What retrying needs to know of a dead letter: all of it never changes."""

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
    """What a retry made: the run and the task run that go on, with the code version they run now."""

    letter_id: UUID
    run_id: UUID
    task_run_id: UUID
    code_version: int
    is_standalone: bool


# SQL of the columns of a Letter, in its order.
LETTER_COLUMNS = """d.id, d.tenant_id, d.run_id, d.task_run_id, d.task_id,
    d.pipeline_id IS NULL AS is_standalone, d.input, d.input_path"""

_ONE = f"""
SELECT {LETTER_COLUMNS}, d.retried_at, d.retry_run_id, d.retry_task_run_id, d.discarded_at
FROM dead_letters AS d WHERE d.tenant_id = :tenant AND d.id = :id
"""


def _one(tx: Transaction, tenant: str, letter_id: UUID) -> Any:
    row: Any = tx.execute(_ONE, {"tenant": tenant, "id": letter_id}).one_or_none()
    if row is None:
        shown = ids.show(ids.DEAD_LETTER, letter_id)
        raise NotFound(f"there is no dead letter {shown}", dlqId=shown)
    return row


def letter_of(row: Any) -> Letter:
    """The Letter of a row that starts with LETTER_COLUMNS."""
    return Letter(*row[:8])


# --- retrying ---------------------------------------------------------------------------------------------


def retry(tx: Transaction, tenant: str, letter_id: UUID) -> Retried:
    """Try a task run again that failed for good, with its task's current code and its original input.

    Raises:
        NotFound: the tenant has no such dead letter.
        Conflict: it was retried or discarded already; its run was cancelled, or its history dropped; or its
            task is not registered any more.
        Unavailable: nothing new is accepted during maintenance.
    """
    _refuse_closed(row := _one(tx, tenant, letter_id))
    retried = retry_of_run(tx, [letter_of(row)])
    if not retried:
        # Another was first, between the look and the lock.
        _refuse_closed(_one(tx, tenant, letter_id))
    return retried[0]


def retry_of_run(tx: Transaction, letters: Sequence[Letter]) -> list[Retried]:
    """Retry dead letters of one run. Those that were retried or discarded meanwhile are left out.

    Raises:
        Conflict, Unavailable: as `retry`; nothing was changed.
    """
    if letters[0].is_standalone:
        return [each for letter in letters for each in _queue_again(tx, letter)]
    return _go_on(tx, letters)


# The run's row comes first, as everywhere: who waits for it finds its letters as its last holder left them.
_LOCK = f"""
SELECT d.id FROM dead_letters AS d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {OPEN} ORDER BY d.id FOR UPDATE
"""


def _lock(tx: Transaction, letters: Sequence[Letter]) -> list[Letter]:
    still_open = set(tx.execute(_LOCK, {"ids": [each.id for each in letters]}).scalars())
    return [each for each in letters if each.id in still_open]


def _go_on(tx: Transaction, letters: Sequence[Letter]) -> list[Retried]:
    run_id = letters[0].run_id
    maintenance_mode.admit(tx)
    run = run_headers.load(tx, run_id)
    status = reopening.lock(tx, run, run_id)
    still_open = {each.task_run_id: each.id for each in _lock(tx, letters)}
    if run is None or not still_open:
        return []
    # Marked first: a map that cannot be laid out this time either leaves its next dead letter at once.
    for task_run_id, letter_id in still_open.items():
        _mark(tx, letter_id, run_id, task_run_id)
    return [
        Retried(still_open[each.id], run_id, each.id, each.code_version, is_standalone=False)
        for each in reopening.reopen(tx, run, status, still_open)
    ]


_WISHES = """
SELECT r.priority, r.metadata,
    (SELECT t.idempotency_key FROM task_runs AS t WHERE t.run_id = r.id LIMIT 1) AS key
FROM runs AS r WHERE r.id = :id
"""


def _queue_again(tx: Transaction, letter: Letter) -> list[Retried]:
    try:
        value = tx.values.load(letter.input, letter.input_path)
    except NotFound as error:
        raise Conflict(f"the input is not in storage any more: {error.detail}") from error
    maintenance_mode.admit(tx)
    if not _lock(tx, [letter]):
        return []
    # Its history may have been dropped: then the task's own priority counts.
    wishes: Any = tx.execute(_WISHES, {"id": letter.run_id}).one_or_none()
    kept = (None, None, None) if wishes is None else (wishes.priority, wishes.metadata, wishes.key)
    # Should another one execute under its key by now, or have its result, then that one is the retry.
    queued = standalone_tasks.enqueue(tx, letter.tenant, [QueueRequest(letter.task_id, value, *kept)])[0]
    version = task_rows.tasks(tx, letter.tenant, [letter.task_id])[letter.task_id].code_version
    run_id = ids.run_id_of(queued.task_run_id)
    _mark(tx, letter.id, run_id, queued.task_run_id)
    return [Retried(letter.id, run_id, queued.task_run_id, version, is_standalone=True)]


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
            f"dead letter {shown} was retried already", hint=f"its retry is task run {task_run}", dlqId=shown
        )
    if row.discarded_at is not None:
        raise Conflict(f"dead letter {shown} was discarded", hint="it is not retried any more", dlqId=shown)


# --- putting aside ----------------------------------------------------------------------------------------

_DISCARD = f"""
UPDATE dead_letters AS d SET discarded_at = :now, discard_reason = :reason
WHERE d.tenant_id = :tenant AND d.id = :id AND {OPEN}
"""


def discard(tx: Transaction, tenant: str, letter_id: UUID, reason: str | None = None) -> None:
    """Put a dead letter aside: it stays readable, and is not retried any more.

    Raises:
        NotFound: the tenant has no such dead letter.
        Conflict: it was retried or discarded already.
    """
    parameters = {"tenant": tenant, "id": letter_id, "reason": reason, "now": tx.now}
    if not tx.execute(_DISCARD, parameters).rowcount:
        _refuse_closed(_one(tx, tenant, letter_id))


_DISCARD_MATCHING = """
UPDATE dead_letters AS u SET discarded_at = :now, discard_reason = :reason
WHERE u.id = ANY(ARRAY(
    SELECT d.id FROM dead_letters AS d WHERE {where} AND {open} ORDER BY d.id LIMIT :batch
    FOR UPDATE SKIP LOCKED))
"""


def discard_matching(tx: Transaction, tenant: str, which: LetterFilter, reason: str | None = None) -> int:
    """Put a batch of open dead letters aside; how many there were. BATCH of them: there may be more."""
    where, parameters = which.sql(tenant)
    statement = _DISCARD_MATCHING.format(where=where, open=OPEN)
    return tx.execute(statement, {**parameters, "reason": reason, "now": tx.now, "batch": BATCH}).rowcount


# A row that somebody holds is being retried or discarded: it is left for the next time.
_PURGE = """
DELETE FROM dead_letters WHERE id = ANY(ARRAY(
    SELECT d.id FROM dead_letters AS d WHERE {where} ORDER BY d.id LIMIT :batch FOR UPDATE SKIP LOCKED))
"""


def purge(tx: Transaction, tenant: str, before: datetime) -> int:
    """Delete a batch of dead letters that failed before a time, open or not; how many there were. BATCH of
    them: there may be more.
    """
    where, parameters = LetterFilter(until=before).sql(tenant)
    return tx.execute(_PURGE.format(where=where), {**parameters, "batch": BATCH}).rowcount
