"""Ends attempts whose process is gone, silent or late, and hands over claimed task runs that never began.

Three callers: the tick, for lost attempts; a worker's parent process, when a child died; a child process that
cannot store its outcomes. All of them end attempts by the verb of failures, so retries and dead letters are
the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.store import sessions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation

Loss = tuple[TaskRun, Failure]


def end(database: Database, losses: Sequence[Loss], *, max_retry_delay_ms: int | None) -> int:
    """End attempts, with one transaction for each run. Returns how many of them ended by it.

    Args:
        losses: the attempts, each with its failure.
        max_retry_delay_ms: no retry waits for longer (ms); None for no such limit.

    Raises:
        PartlyFailed: the attempts of some runs could not be ended; the attempts of the other runs ended.
        Unavailable: PostgreSQL cannot be reached.
    """
    by_run: dict[UUID, list[Loss]] = defaultdict(list)
    for each in losses:
        by_run[each[0].run_id].append(each)
    isolation = Isolation(database)

    def end_of_run(mine: Sequence[Loss]) -> int:
        return database.run(lambda tx: _end(tx, mine, max_retry_delay_ms))

    done = sum(
        isolation.run(lambda mine=mine: end_of_run(mine), run_id=run_id)  # type: ignore[misc]
        for run_id, mine in by_run.items()
    )
    return isolation.finish(done)


def _end(tx: Transaction, losses: Sequence[Loss], max_retry_delay_ms: int | None) -> int:
    run = run_headers.load(tx, losses[0][0].run_id)
    if run is None:
        return 0
    turn = Turn(
        run,
        losses,
        queue_names.plain(losses[0][0].queue),
        max_retry_delay_ms=max_retry_delay_ms,
        counting=Counting.UNCOUNTED,
    )
    return turn.end_attempts(tx)


@dataclass(frozen=True, slots=True)
class ChildActivity:
    """What a child process was doing when it ended, as its parent saw it.

    Args:
        worker: the name with which it claimed task runs.
        called: task runs whose function it had begun to call, and whose result it had not stored.
        run_id: the run of the message under way; None between messages.
        named: ordinals that the message names.
        attempt: the attempt that the message names.
        blamed: the one of several calls at once that took too long; None when there was one call at a time.
    """

    worker: str
    called: frozenset[UUID] = frozenset()
    run_id: UUID | None = None
    named: tuple[int, ...] = ()
    attempt: int = 1
    blamed: UUID | None = None


_OF_CHILD = f"SELECT {COLUMNS} FROM task_runs AS t WHERE t.status = 'running' AND t.worker = :worker"


def of_child(
    database: Database,
    activity: ChildActivity,
    ending: Failure,
    *,
    max_retry_delay_ms: int | None,
    of_others: Failure | None = None,
) -> int:
    """End the attempts that a child had begun, give back the task runs that it had claimed and not begun, and
    send messages for the rest of its message. Returns how many attempts ended.

    Its sessions are ended first: a claim of theirs that waited for a lock would become durable later, and the
    task run would be `running` without running anywhere.

    Args:
        max_retry_delay_ms: as for `end`.
        of_others: how calls ended that ran beside the one to blame; as that one by default.

    Raises:
        Unavailable: PostgreSQL cannot be reached, or a session has not ended yet. It can be repeated.
    """
    sessions.end(database, worker_processes.sessions_of(activity.worker))
    with database.transaction() as tx:
        claimed = [of_row(row) for row in tx.execute(_OF_CHILD, {"worker": activity.worker})]
    beside = of_others if of_others is not None and activity.blamed is not None else ending
    begun = [
        (each, ending if each.id == activity.blamed else beside)
        for each in claimed
        if each.id in activity.called
    ]
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
