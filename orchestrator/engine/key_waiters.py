"""Lets task runs wait for the holder of their idempotency key, and wakes them when the key is free.

A waiting task run occupies no worker and uses up no attempt: it is `pending` with a due time, and the
transaction that ends the holder wakes it. The due time covers lost wake-ups. When the holder completed, all
waiters are released, because each of them completes with the result; when the holder failed, one waiter is
released and becomes the next holder.

Stepping back and ending a holder both lock the row of the key first. So either the waiter finds that the
holder has ended, or the holder's transaction finds the waiter.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import Name
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import KeyWait, TaskRun
from pipeweave.orchestrator.engine.key_sql import HOLDER, IS_NAMED, IS_OPEN, NAMES, name_parameters
from pipeweave.orchestrator.engine.release import as_released
from pipeweave.orchestrator.queueing import limits, widths
from pipeweave.orchestrator.state import releasing, run_headers
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.pause_sql import IS_RUN_PAUSED
from pipeweave.orchestrator.state.rows import read
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent
from pipeweave.orchestrator.store.database import Transaction

T = TaskStatus

# A waiter's due time is as far ahead as its holder has had the key until now, within these limits.
SOONEST = timedelta(seconds=15)
LATEST = timedelta(minutes=5)

# One transaction wakes at most this many waiters of a key; the next transaction goes on.
BATCH = 100

# --- stepping back ----------------------------------------------------------------------------------------

_BACK = Move(
    to=T.PENDING,
    changes=""", due_at = now() + g.pause, awaits = g.holder, idempotency_key = g.key, queued_at = NULL,
    worker = NULL, claimed_at = NULL, started_at = NULL, heartbeat_at = NULL, suspected_at = NULL,
    progress = NULL, progress_message = NULL""",
    rows=by_key("g.id"),
    where="t.attempt = g.attempt AND (CAST(:worker AS text) IS NULL OR t.worker = :worker)",
    source="""FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[]), CAST(:keys AS text[]),
        CAST(:holders AS uuid[]), CAST(:shown AS text[]), CAST(:pauses AS interval[]))
        AS g(id, attempt, key, holder, shown, pause)""",
    event=MoveEvent("'task_run.stepped_back'", "jsonb_build_object('awaits', m.shown, 'dueAt', m.due_at)"),
    returning=", g.shown, t.due_at",
).sql
_STEP_BACK = f"WITH {_BACK} SELECT * FROM moved"


def step_back(tx: Transaction, run_id: UUID, waiting: Sequence[KeyWait]) -> list[TaskRun]:
    """Give up claimed task runs of a run until the holders of their keys end. No attempt is used up."""
    waiting = sorted(waiting, key=lambda each: each.task_run.id)
    pauses = [min(max(tx.now - each.since, SOONEST), LATEST) for each in waiting]
    parameters = {
        "run_id": run_id,
        "ids": [each.task_run.id for each in waiting],
        "attempts": [each.task_run.attempt for each in waiting],
        "keys": [each.key for each in waiting],
        "holders": [each.holder for each in waiting],
        "shown": [ids.show(ids.TASK_RUN, each.holder) for each in waiting],
        "pauses": pauses,
        # One process had claimed all of them.
        "worker": waiting[0].task_run.worker,
        "now": tx.now,
    }
    return read(tx.execute(_STEP_BACK, parameters))


# --- locking keys -----------------------------------------------------------------------------------------

_LOCK = f"""
SELECT 1 FROM {NAMES} JOIN idempotency_claims AS c ON {IS_NAMED} ORDER BY c.task_id, c.key FOR UPDATE OF c
"""
_EXECUTING = f"""
SELECT c.task_id, c.key FROM {NAMES} JOIN idempotency_claims AS c ON {IS_NAMED} {HOLDER}
WHERE c.finished_at IS NULL AND {IS_OPEN}
"""


def lock(tx: Transaction, tenant: str, names: Collection[Name]) -> set[Name]:
    """Lock keys, before any other row. Returns the keys that no task run executes under any more."""
    # A statement after the lock reads the rows: it sees the changes that the lock waited for.
    rows: list[Any] = tx.execute(_EXECUTING, name_parameters(tenant, names), lock=_LOCK).all()
    tx.catch_up()
    return set(names) - {(row.task_id, row.key) for row in rows}


# --- waking -----------------------------------------------------------------------------------------------

# Best priority first, then oldest. A paused run would only take the turn of another. A row that another
# transaction has locked is released or cancelled there.
_WAITING = f"""
SELECT w.run_id, w.id, w.task_id, w.idempotency_key AS key FROM {NAMES} CROSS JOIN LATERAL (
    SELECT t.run_id, t.id, t.task_id, t.idempotency_key FROM task_runs AS t
    WHERE t.tenant_id = :tenant AND t.task_id = n.task AND t.idempotency_key = n.key
        AND t.status = 'pending' AND t.awaits IS NOT NULL AND t.due_at IS NOT NULL
        AND NOT {IS_RUN_PAUSED}
    ORDER BY t.priority, t.id LIMIT :most FOR UPDATE SKIP LOCKED) AS w
"""


def wake(tx: Transaction, tenant: str, names: Collection[Name], most: int | None = None) -> set[str]:
    """Release waiters of these keys.

    Args:
        most: the largest number of waiters of each key; None for all.

    Returns:
        Tasks whose limits have to be filled.
    """
    size = BATCH if most is None else most
    rows: list[Any] = tx.execute(_WAITING, name_parameters(tenant, names) | {"most": size}).all()
    by_run: dict[UUID, list[UUID]] = defaultdict(list)
    by_name: dict[Name, int] = defaultdict(int)
    for row in rows:
        by_run[row.run_id].append(row.id)
        by_name[row.task_id, row.key] += 1
    limited: set[str] = set()
    for run_id in sorted(by_run):
        released = releasing.release_due(tx, run_id, by_run[run_id])
        limited |= {each.task_id for each in released if each.status is T.READY}
        queued = [as_released(each) for each in released if each.status is not T.READY]
        tx.send(*widths.together(tx, tenant, queued))
    if most is None and (left := [name for name, number in by_name.items() if number == size]):
        tx.afterwards(functools.partial(_wake_more, tenant=tenant, names=left))
    return limited


def _wake_more(tx: Transaction, *, tenant: str, names: Collection[Name]) -> None:
    limits.fill(tx, tenant, wake(tx, tenant, names))


# --- holders that failed ----------------------------------------------------------------------------------

_FORGET = f"DELETE FROM idempotency_claims AS c USING {NAMES} WHERE {IS_NAMED} AND c.finished_at IS NULL"
_ANSWERED = f"""
SELECT c.task_id, c.key FROM {NAMES} JOIN idempotency_claims AS c ON {IS_NAMED}
WHERE c.finished_at IS NOT NULL
"""


def free(tx: Transaction, run_id: UUID, names: Collection[Name]) -> None:
    """Delete the holders of these keys, if none of them executes any more, and wake the next waiter of each.
    Called when task runs of a run that had keys, or waited for them, have ended badly.
    """
    run = run_headers.load(tx, run_id)
    if run is None or not (over := lock(tx, run.tenant, names)):
        return
    rows: list[Any] = tx.execute(_ANSWERED, name_parameters(run.tenant, over)).all()
    answered = {(row.task_id, row.key) for row in rows}
    limited = wake(tx, run.tenant, answered) if answered else set()
    if unanswered := over - answered:
        tx.execute(_FORGET, name_parameters(run.tenant, unanswered))
        limited |= wake(tx, run.tenant, unanswered, most=1)
    limits.fill(tx, run.tenant, limited)
