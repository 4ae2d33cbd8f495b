"""Attempts whose process is gone, silent or late: found, and ended as what they are.

Three ways lead here: the tick finds workers that are gone and attempts that are silent or overdue; a worker's
own parent process finds that a child died, and knows what it was doing; a worker that stops gives back what
it could not finish. All end attempts by the verb that failures use, so that retries and dead letters are the
same.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.registry.worker_processes import WORKER_OF
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.store.database import Database, Transaction

# One look takes at most this many; the next one goes on.
BATCH = 1_000

# After its time limit an attempt is ended by its own worker, by function or process; the tick leaves them
# this long.
OVERDUE_AFTER = timedelta(seconds=15)
# The second look at a silent attempt comes this much later, at the earliest.
CONFIRM_AFTER = timedelta(seconds=1.5)

Loss = tuple[TaskRun, Failure]


def end(database: Database, losses: Sequence[Loss], *, max_retry_delay_ms: int | None) -> int:
    """End attempts, each run's in a transaction of its own. How many there were.

    Args:
        max_retry_delay_ms: no retry waits for longer (ms); None for no such limit.
    """
    by_run: dict[UUID, list[Loss]] = defaultdict(list)
    for each in losses:
        by_run[each[0].run_id].append(each)
    for run_id, mine in by_run.items():
        database.run(
            functools.partial(_end, run_id=run_id, losses=mine, max_retry_delay_ms=max_retry_delay_ms)
        )
    return len(losses)


def _end(tx: Transaction, run_id: UUID, losses: Sequence[Loss], max_retry_delay_ms: int | None) -> None:
    run = run_headers.load(tx, run_id)
    if run is None:
        return
    turn = Turn(
        run,
        losses,
        losses[0][0].queue,
        max_retry_delay_ms=max_retry_delay_ms,
        counting=Counting.UNCOUNTED,
    )
    turn.store(tx)


# --- what the tick finds ----------------------------------------------------------------------------------

# What runs is bounded by the workers there are, so every look may see all of it.
_ON_LOST_WORKERS = f"""
SELECT {COLUMNS}, t.worker, t.claimed_at FROM task_runs AS t
WHERE t.status = 'running' AND NOT EXISTS (
    SELECT 1 FROM workers AS w WHERE w.id = {WORKER_OF} AND w.stopped_at IS NULL)
ORDER BY t.run_id, t.id LIMIT :batch
"""


def of_lost_workers(tx: Transaction) -> list[Loss]:
    """Attempts of workers that are not alive."""
    rows: list[Any] = list(tx.execute(_ON_LOST_WORKERS, {"batch": BATCH}))
    together = Counter(_claim(row) for row in rows)
    # A worker claims several small task runs at once and calls one after the other. Which of them it had
    # begun, nobody is left to say: each may have run, so each is an attempt, but none is used up by it.
    return [
        (of_row(row), failure.lost("its worker is gone", is_certain=together[_claim(row)] == 1))
        for row in rows
    ]


def _claim(row: Any) -> tuple[UUID, str, Any]:
    return row.run_id, row.worker, row.claimed_at


_SILENT_SINCE = "t.heartbeat_at < now() - k.heartbeat_interval_ms * interval '2 milliseconds'"

_SUSPECT = f"""
UPDATE task_runs AS t SET suspected_at = now() FROM tasks AS k
WHERE t.status = 'running' AND k.tenant_id = t.tenant_id AND k.id = t.task_id AND {_SILENT_SINCE}
  AND (t.suspected_at IS NULL OR t.suspected_at < t.heartbeat_at)
"""

_SILENT = f"""
SELECT {COLUMNS}, k.heartbeat_interval_ms AS interval_ms
FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.status = 'running' AND {_SILENT_SINCE} AND t.suspected_at > t.heartbeat_at
  AND t.suspected_at <= now() - CAST(:confirm AS interval)
ORDER BY t.run_id, t.id LIMIT :batch
"""

_OVERDUE = f"""
SELECT {COLUMNS}, k.timeout_seconds
FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.status = 'running'
  AND t.claimed_at < now() - k.timeout_seconds * interval '1 second' - CAST(:after AS interval)
ORDER BY t.run_id, t.id LIMIT :batch
"""


def of_time(tx: Transaction) -> list[Loss]:
    """Attempts that were silent for twice their heartbeat interval, or run far beyond their time limit.

    Silence counts when two looks found it: after PostgreSQL was away, every attempt looks silent at first.
    """
    tx.execute(_SUSPECT)
    silent: Iterable[Any] = tx.execute(_SILENT, {"confirm": CONFIRM_AFTER, "batch": BATCH})
    overdue: Iterable[Any] = tx.execute(_OVERDUE, {"after": OVERDUE_AFTER, "batch": BATCH})
    found = {row.id: (of_row(row), failure.silent(row.interval_ms)) for row in silent}
    return list(
        ({row.id: (of_row(row), failure.overdue(row.timeout_seconds)) for row in overdue} | found).values()
    )


# --- what a worker's parent knows -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChildActivity:
    """What a child process was doing when it ended, as its parent saw it.

    Args:
        worker: what it claimed task runs as.
        called: task runs whose function it had begun to call, and whose result it had not stored.
        run_id: of the message under way; None between messages.
        named: ordinals that the message names.
        attempt: that the message names.
    """

    worker: str
    called: frozenset[UUID] = frozenset()
    run_id: UUID | None = None
    named: tuple[int, ...] = ()
    attempt: int = 1


_OF_CHILD = f"SELECT {COLUMNS} FROM task_runs AS t WHERE t.status = 'running' AND t.worker = :worker"


def of_child(
    database: Database, activity: ChildActivity, ending: Failure, *, max_retry_delay_ms: int | None
) -> int:
    """End what a child was doing, give back what it had claimed and not begun, send again what its message
    named. How many attempts ended.

    Args:
        max_retry_delay_ms: as for `end`.
    """
    with database.transaction() as tx:
        claimed = [of_row(row) for row in tx.execute(_OF_CHILD, {"worker": activity.worker})]
    begun = [(each, ending) for each in claimed if each.id in activity.called]
    count = end(database, begun, max_retry_delay_ms=max_retry_delay_ms)
    _give_back(database, [each for each in claimed if each.id not in activity.called], activity.worker)
    if activity.run_id is not None:
        with database.transaction() as tx:
            unstarted = Unstarted((), activity.named, activity.attempt)
            hand_over(tx, activity.run_id, unstarted, worker=activity.worker)
    return count


def _give_back(database: Database, claimed: Sequence[TaskRun], worker: str) -> None:
    for run_id in dict.fromkeys(each.run_id for each in claimed):
        mine = [each for each in claimed if each.run_id == run_id]
        database.run(
            lambda tx, run_id=run_id, mine=mine: hand_over(tx, run_id, Unstarted(mine), worker=worker)  # type: ignore[misc]
        )
