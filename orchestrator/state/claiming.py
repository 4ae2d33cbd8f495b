"""Claims task runs for a worker, and returns claimed task runs whose function was not called.

Each verb is one guarded UPDATE: a late worker, a doubled message and a racing cancel find no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.events import PAUSE, together
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.pause_sql import IS_PAUSED
from pipeweave.orchestrator.state.rows import COLUMNS, read, task_run_ids
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, OneOf, status_is
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

STARTED = MoveEvent("'task_run.started'", "jsonb_build_object('worker', CAST(:worker AS text))")
# A claim usually moves a queued row. The event of a claim that moves a pending row names that status, so that
# the history can be replayed.
STARTED_FROM_PENDING = "jsonb_build_object('worker', CAST(:worker AS text), 'from', 'pending')"
# The columns that a claim sets. now() is the database's clock: time limits are judged by it, because the
# clocks of workers differ. What two processes know of that clock differs, too, by a millisecond on a busy
# machine: what was queued by one of them starts no earlier than that.
CLAIMED = """, worker = :worker, started_at = greatest(:now, t.queued_at), claimed_at = now(),
    heartbeat_at = now()"""
# Only a queued row is claimed by a message, and only from the row's own queue: a message that strayed into
# the queue of another service or tenant finds nothing. A pending row is started by the transaction that saw
# its predecessors final, and by nobody else.
_START = Move(
    to=T.RUNNING,
    changes=CLAIMED,
    source=f"FROM {NAMED}",
    rows=by_key(),
    where=f"""t.attempt = :attempt AND {status_is(T.QUEUED)}
        AND t.queue = coalesce(CAST(:queue AS text), t.queue) AND NOT {IS_PAUSED}""",
    event=STARTED,
).sql

_START_ALONE = f"WITH {_START} SELECT * FROM moved"
# Reads the run's header in the same statement, for a process that has not cached it.
_START_WITH_HEADER = f"""
WITH {_START} SELECT {run_headers.COLUMNS}, m.* FROM runs AS r LEFT JOIN moved AS m ON true
WHERE r.id = :run_id
"""


def start(
    tx: Transaction,
    run_id: UUID,
    ordinals: Sequence[int],
    attempt: int,
    *,
    worker: str,
    queue: str | None = None,
) -> list[TaskRun]:
    """Claim queued task runs for this worker.

    Args:
        queue: the queue that the worker serves; None for any queue.

    Returns:
        The claimed task runs. Task runs that another worker claimed, that were cancelled, that are at a later
        attempt or in another queue are left out.
    """
    if not ordinals:
        return []
    return read(tx.execute(_START_ALONE, _claim(tx, run_id, ordinals, attempt, worker, queue)))


def start_with_header(
    tx: Transaction,
    run_id: UUID,
    ordinals: Sequence[int],
    attempt: int,
    *,
    worker: str,
    queue: str | None = None,
) -> tuple[RunHeader | None, list[TaskRun]]:
    """Claim task runs as `start` does, and read the run's header in the same statement.

    Returns:
        The header, None when the run does not exist, and the claimed task runs.
    """
    if (known := run_headers.cached(tx, run_id)) is not None or not ordinals:
        started = start(tx, run_id, ordinals, attempt, worker=worker, queue=queue)
        return known or run_headers.load(tx, run_id), started
    rows = tx.execute(_START_WITH_HEADER, _claim(tx, run_id, ordinals, attempt, worker, queue)).all()
    if not rows:
        return None, []
    claimed = [row[run_headers.WIDTH :] for row in rows]
    return run_headers.of_row(tx, rows[0]), read(each for each in claimed if each[0] is not None)


def _claim(
    tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int, worker: str, queue: str | None
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "ids": task_run_ids(run_id, ordinals),
        "attempt": attempt,
        "worker": worker,
        "queue": queue,
        "now": tx.now,
    }


_GIVE_BACK = Move(
    to=OneOf(f"CASE WHEN {IS_PAUSED} THEN 'ready' ELSE 'queued' END", (T.READY, T.QUEUED)),
    changes=""", worker = NULL, started_at = NULL, claimed_at = NULL, heartbeat_at = NULL,
    suspected_at = NULL, queued_at = :now""",
    rows=by_key("g.id"),
    where=f"""t.attempt = g.attempt AND {status_is(T.RUNNING)}
        AND t.worker = coalesce(CAST(:worker AS text), t.worker)""",
    source="FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[])) AS g(id, attempt)",
).sql


def give_back(tx: Transaction, task_runs: Sequence[TaskRun], *, worker: str | None = None) -> list[TaskRun]:
    """Return claimed task runs of one run whose function was not called. No attempt is used up.

    Args:
        task_runs: as they were claimed.
        worker: the name that claimed them; None for any name. A repeated call with a name changes nothing
            when another worker has claimed the task runs since.

    Returns:
        The task runs that are `queued` now and need a message. Paused task runs became `ready` instead.
    """
    if not task_runs:
        return []
    task_runs = sorted(task_runs, key=lambda each: each.id)
    parameters = {
        "run_id": task_runs[0].run_id,
        "ids": [each.id for each in task_runs],
        "attempts": [each.attempt for each in task_runs],
        "worker": worker,
        "now": tx.now,
    }
    returned = read(tx.execute(f"WITH {_GIVE_BACK} SELECT * FROM moved", parameters))
    by_status = {each: [t for t in returned if t.status is each] for each in (T.READY, T.QUEUED)}
    for status, moved in by_status.items():
        cause = {"cause": PAUSE} if status is T.READY else {}
        append(tx, together(f"task_runs.{status.value}", moved, **{"from": "running"}, **cause))
    return by_status[T.QUEUED]


_QUEUED = f"""
SELECT {COLUMNS} FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.attempt = :attempt AND {status_is(T.QUEUED)}
"""


def queued(tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int) -> list[TaskRun]:
    """The task runs of a message that are still queued at this attempt."""
    if not ordinals:
        return []
    return read(
        tx.execute(_QUEUED, {"run_id": run_id, "ids": task_run_ids(run_id, ordinals), "attempt": attempt})
    )
