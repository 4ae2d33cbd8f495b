"""Releases task runs: steps whose predecessors are final, due attempts, ready rows when a limit has room.

Each verb is one guarded UPDATE that returns the rows it moved. A late worker, a doubled message and a racing
cancel find no row, because the guard names the id and the statuses that `domain/states.py` allows. A paused
or limited task run becomes `ready` instead of `queued`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import events
from pipeweave.orchestrator.domain.events import together
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state.claiming import CLAIMED, STARTED, STARTED_FROM_PENDING
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.pause_sql import HELD, IS_PAUSED
from pipeweave.orchestrator.state.rows import COLUMNS, read, task_run_ids
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, OneOf, move, status_is
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

T = TaskStatus
_CONTINUED = replace(STARTED, data=STARTED_FROM_PENDING)


def release(
    tx: Transaction,
    run_id: UUID,
    ordinals: Sequence[int],
    *,
    continued: Sequence[int] = (),
    worker: str | None = None,
    queues: Sequence[str] = (),
) -> list[TaskRun]:
    """Release steps whose predecessors are final.

    Args:
        ordinals: the steps; held steps become `ready`, the others `queued` and need a message.
        continued: those of the steps that this worker may continue itself: a step of its queues that is not
            held becomes `running` at once.
        worker: the name that claims the continued steps.
        queues: the worker's queues.
    """
    left = task_run_ids(run_id, ordinals)
    released: list[TaskRun] = []
    if continued:
        changes = f"{CLAIMED}, queued_at = :now"
        is_mine = f"t.queue = ANY(CAST(:queues AS text[])) AND NOT {HELD}"
        going_on = task_run_ids(run_id, continued)
        parameters = {"worker": worker, "queues": list(queues)}
        released += _release(tx, run_id, T.RUNNING, going_on, is_mine, changes, parameters, _CONTINUED)
    # The steps that the first statement leaves were held when it ran. The second statement does not ask
    # again, because a pause that ended in between must not leave a step pending.
    for to, where in ((T.QUEUED, f"NOT {HELD}"), (T.READY, "true")):
        done = {each.id for each in released}
        left = [each for each in left if each not in done]
        moved = _release(tx, run_id, to, left, where, ", queued_at = :now", {}, None)
        append(tx, _released(moved))
        released += moved
    return released


def _released(moved: Sequence[TaskRun]) -> list[events.Event]:
    ready = [each for each in moved if each.status is T.READY]
    return together(events.QUEUED, [each for each in moved if each.status is T.QUEUED]) + events.held(ready)


# SQL: the task run waits for its predecessors, not for the due time of another attempt.
UNDECIDED = "t.status = 'pending' AND t.due_at IS NULL"


_LOCK_UNDECIDED = f"""
SELECT {COLUMNS} FROM {NAMED} JOIN task_runs AS t ON {by_key()} WHERE {UNDECIDED}
ORDER BY t.id FOR UPDATE OF t
"""


def lock_undecided(tx: Transaction, run_id: UUID, ordinals: Sequence[int]) -> list[TaskRun]:
    """Lock those of these steps that nobody has decided, and return them."""
    return read(tx.execute(_LOCK_UNDECIDED, {"run_id": run_id, "ids": task_run_ids(run_id, ordinals)}))


def _release(
    tx: Transaction,
    run_id: UUID,
    to: TaskStatus,
    task_runs: Sequence[UUID],
    where: str,
    changes: str,
    parameters: dict[str, Any],
    event: MoveEvent | None,
) -> list[TaskRun]:
    if not task_runs:
        return []
    where = f"{UNDECIDED} AND {where}"
    change = Move(to=to, changes=changes, source=f"FROM {NAMED}", rows=by_key(), where=where, event=event)
    return move(tx, run_id, change, {"ids": list(task_runs)} | parameters)


_RELEASE_DUE = Move(
    to=OneOf(f"CASE WHEN {HELD} THEN 'ready' ELSE 'queued' END", (T.READY, T.QUEUED)),
    changes=", queued_at = :now, due_at = NULL, awaits = NULL",
    source=f"FROM {NAMED}",
    rows=by_key(),
    where=f"{status_is(T.PENDING)} AND t.due_at IS NOT NULL",
).sql


def release_due(tx: Transaction, run_id: UUID, task_runs: Sequence[UUID]) -> list[TaskRun]:
    """Release attempts that wait for a due time, even before it: `ready` if they are held, else `queued`."""
    if not task_runs:
        return []
    parameters = {"run_id": run_id, "ids": sorted(task_runs), "now": tx.now}
    moved = read(tx.execute(f"WITH {_RELEASE_DUE} SELECT * FROM moved", parameters))
    append(tx, _released(moved))
    return moved


# One statement moves task runs of several runs.
_OF_ANY_RUN = "FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS g(run_id, id)"
# As in named_rows.py; the list of the runs tells PostgreSQL, before it begins, which partitions to leave out.
_BY_KEY_OF_ANY_RUN = """t.run_id = ANY(CAST(:runs AS uuid[])) AND t.run_id = g.run_id AND t.id = g.id
        AND (g.id = g.id) IS TRUE"""


def _moved_of_any_run(to: TaskStatus, changes: str, where: str) -> str:
    change = Move(
        to=to,
        changes=changes,
        source=_OF_ANY_RUN,
        rows=_BY_KEY_OF_ANY_RUN,
        where=where,
    )
    return f"WITH {change.sql} SELECT * FROM moved"


_DISPATCH = _moved_of_any_run(T.QUEUED, ", queued_at = :now", f"{status_is(T.READY)} AND NOT {IS_PAUSED}")
_AWAIT_LIMIT = _moved_of_any_run(T.READY, "", status_is(T.QUEUED))
_HOLD_BACK = _moved_of_any_run(T.READY, "", f"{status_is(T.QUEUED)} AND {IS_PAUSED}")


def dispatch_ready(tx: Transaction, task_runs: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Queue ready task runs (run id, id) whose limit has room; returns them best priority first.

    The caller holds the lock on the row of their task, which guards its limits.
    """
    return _move_any(tx, _DISPATCH, task_runs, events.QUEUED, **{"from": "ready"})


def await_limit(tx: Transaction, task_runs: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Move queued task runs (run id, id) that hold no slot of their limit to `ready`: they take one."""
    return _move_any(tx, _AWAIT_LIMIT, task_runs, events.READY, cause=events.LIMIT)


def hold_back(tx: Transaction, task_runs: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Move queued task runs (run id, id) that are paused back to `ready`: their messages will find no row."""
    return _move_any(tx, _HOLD_BACK, task_runs, events.READY, cause=events.PAUSE)


def _move_any(
    tx: Transaction, statement: str, task_runs: Sequence[tuple[UUID, UUID]], type_: str, **data: Any
) -> list[TaskRun]:
    if not task_runs:
        return []
    task_runs = sorted(task_runs)
    runs, ids = [run for run, _ in task_runs], [task_run for _, task_run in task_runs]
    parameters = {"runs": runs, "ids": ids, "now": tx.now}
    moved = read(tx.execute(statement, parameters))
    by_run: dict[UUID, list[TaskRun]] = {}
    for each in moved:
        by_run.setdefault(each.run_id, []).append(each)
    append(tx, [event for mine in by_run.values() for event in together(type_, mine, **data)])
    return sorted(moved, key=lambda each: (each.priority, each.id))
