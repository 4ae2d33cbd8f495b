"""Releases task runs: steps whose predecessors are final, attempts that are due, what a limit has room for.

Each verb is one guarded UPDATE: it moves the rows that may move and returns them; a late worker, a doubled
message and a racing cancel find no row. The guard is always id, attempt and the statuses that
`domain/states.py` allows. A paused or limited task run becomes `ready` instead of `queued`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.events import together
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state.claiming import CLAIMED, STARTED, STARTED_FROM_PENDING
from pipeweave.orchestrator.state.pause_sql import HELD, IS_PAUSED
from pipeweave.orchestrator.state.rows import read, task_run_ids
from pipeweave.orchestrator.state.task_transitions import move, move_sql, status_is
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

T = TaskStatus
_CONTINUED = STARTED | {"data": STARTED_FROM_PENDING}


def release(
    tx: Transaction,
    run_id: UUID,
    ordinals: Sequence[int],
    *,
    continued: Sequence[int] = (),
    worker: str | None = None,
    queue: str | None = None,
) -> list[TaskRun]:
    """Let steps go whose predecessors are final.

    One of `continued` whose queue is this worker's becomes `running` at once; of the others, those that are
    HELD become `ready` and the rest `queued`: they need a message.
    """
    left = task_run_ids(run_id, ordinals)
    released: list[TaskRun] = []
    if continued:
        changes = f"{CLAIMED}, queued_at = :now"
        mine = f"t.queue = :queue AND NOT {HELD}"
        going_on = task_run_ids(run_id, continued)
        theirs = {"worker": worker, "queue": queue}
        released += _release(tx, run_id, T.RUNNING, going_on, mine, changes, theirs, _CONTINUED)
    # Whatever the first of these leaves is held, even if it has ceased to be so since.
    for to, which in ((T.QUEUED, f"NOT {HELD}"), (T.READY, "true")):
        done = {each.id for each in released}
        left = [each for each in left if each not in done]
        moved = _release(tx, run_id, to, left, which, ", queued_at = :now", {}, {})
        append(tx, together(f"task_runs.{to.value}", moved))
        released += moved
    return released


# Waits for its predecessors, and not for the due time of another attempt.
UNDECIDED = "t.status = 'pending' AND t.due_at IS NULL"


def _release(
    tx: Transaction,
    run_id: UUID,
    to: TaskStatus,
    which: Sequence[UUID],
    where: str,
    changes: str,
    parameters: dict[str, Any],
    event: dict[str, str],
) -> list[TaskRun]:
    if not which:
        return []
    where = f"t.id = ANY(CAST(:ids AS uuid[])) AND {UNDECIDED} AND {where}"
    return move(tx, run_id, to, changes, where, {"ids": list(which)} | parameters, **event)


_RELEASE_DUE = move_sql(
    "moved",
    f"CASE WHEN {HELD} THEN 'ready' ELSE 'queued' END",
    [T.READY, T.QUEUED],
    ", queued_at = :now, due_at = NULL, awaits = NULL",
    f"t.id = ANY(CAST(:ids AS uuid[])) AND {status_is(T.PENDING)} AND t.due_at IS NOT NULL",
)


def release_due(tx: Transaction, run_id: UUID, which: Sequence[UUID]) -> list[TaskRun]:
    """Let task runs go that are due, or need not wait any longer: `queued`, or `ready` where they are
    HELD.
    """
    if not which:
        return []
    parameters = {"run_id": run_id, "ids": list(which), "now": tx.now}
    moved = read(tx.execute(f"WITH {_RELEASE_DUE} SELECT * FROM moved", parameters))
    for status in (T.READY, T.QUEUED):
        append(tx, together(f"task_runs.{status.value}", [each for each in moved if each.status is status]))
    return moved


# Of whatever runs: one statement for all of them.
_OF_ANY_RUN = "FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS g(run_id, id)"


def _moved_of_any_run(to: TaskStatus, changes: str, where: str) -> str:
    moving = move_sql(
        "moved",
        f"'{to.value}'",
        [to],
        changes,
        f"""t.run_id = ANY(CAST(:runs AS uuid[])) AND t.id = ANY(CAST(:ids AS uuid[])) AND t.id = g.id
        AND {where}""",
        source=_OF_ANY_RUN,
        run="t.run_id = g.run_id",
    )
    return f"WITH {moving} SELECT * FROM moved"


_DISPATCH = _moved_of_any_run(T.QUEUED, ", queued_at = :now", f"{status_is(T.READY)} AND NOT {IS_PAUSED}")
_HOLD_BACK = _moved_of_any_run(T.READY, "", f"{status_is(T.QUEUED)} AND {IS_PAUSED}")


def dispatch_ready(tx: Transaction, which: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Let ready task runs (run id, id) go, best priority first: their limits have room. Called with the
    limits' row locked.
    """
    return _move_any(tx, _DISPATCH, which, "task_runs.queued", **{"from": "ready"})


def hold_back(tx: Transaction, which: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Take queued task runs (run id, id) back that someone paused: their messages will find nothing."""
    return _move_any(tx, _HOLD_BACK, which, "task_runs.ready")


def _move_any(
    tx: Transaction, statement: str, which: Sequence[tuple[UUID, UUID]], type_: str, **data: Any
) -> list[TaskRun]:
    if not which:
        return []
    parameters = {"runs": [run for run, _ in which], "ids": [each for _, each in which], "now": tx.now}
    moved = read(tx.execute(statement, parameters))
    by_run: dict[UUID, list[TaskRun]] = {}
    for each in moved:
        by_run.setdefault(each.run_id, []).append(each)
    append(tx, [event for mine in by_run.values() for event in together(type_, mine, **data)])
    return sorted(moved, key=lambda each: (each.priority, each.id))
