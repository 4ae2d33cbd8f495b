"""Hands task runs over: a worker gives back those that it will not start, and other workers take them; those
that it cannot call go on to a worker that can.

No attempt is used up, because none of their functions was called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.release import as_released
from pipeweave.orchestrator.queueing import limits, placement, widths
from pipeweave.orchestrator.state import claiming, run_headers
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Task runs of one message that its worker will not start.

    Args:
        claimed: task runs that the worker has claimed.
        named: ordinals that the message names and that the worker has not claimed.
        attempt: the attempt that the message names.
    """

    claimed: Sequence[TaskRun] = ()
    named: Sequence[int] = ()
    attempt: int = 1

    def __bool__(self) -> bool:
        return bool(self.claimed or self.named)


def hand_over(tx: Transaction, run_id: UUID, unstarted: Unstarted, *, worker: str) -> None:
    """Give claimed task runs back and send messages for them, and for the named ones that are still queued.

    Args:
        worker: the name that claimed them; a task run that another worker has claimed since is left alone.
    """
    queued = claiming.give_back(tx, unstarted.claimed, worker=worker)
    queued += claiming.queued(tx, run_id, unstarted.named, unstarted.attempt)
    _send(tx, run_id, queued)


def hand_on(tx: Transaction, run_id: UUID, unstarted: Unstarted, *, worker: str) -> list[TaskRun]:
    """Give task runs that the worker cannot call to workers that can; without one, they wait for it.

    Args:
        worker: who claimed them.

    Returns:
        The task runs with the queues in which they go on, or wait (queue_names.is_parking). Paused ones are
        left out.
    """
    returned = claiming.give_back(tx, unstarted.claimed, worker=worker)
    named = claiming.queued(tx, run_id, unstarted.named, unstarted.attempt)
    placed = placement.place(tx, run_id, [each.id for each in (*returned, *named)])
    _send(tx, run_id, placed)
    _fill_slots_of_parked(tx, run_id, placed)
    return placed


def _send(tx: Transaction, run_id: UUID, task_runs: Sequence[TaskRun]) -> None:
    """Send messages for task runs of one run."""
    released = [as_released(each) for each in task_runs]
    run = run_headers.load(tx, run_id) if len(released) > 1 else None
    tx.send(*(released if run is None else widths.together(tx, run.tenant, released)))


def _fill_slots_of_parked(tx: Transaction, run_id: UUID, placed: Sequence[TaskRun]) -> None:
    tasks = {each.task_id for each in placed if each.is_limited and queue_names.is_parking(each.queue)}
    run = run_headers.load(tx, run_id) if tasks else None
    if run is not None:
        limits.fill(tx, run.tenant, tasks)
