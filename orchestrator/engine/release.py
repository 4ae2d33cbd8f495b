"""Releases task runs: the claimant continues some at once, the others get a message or wait for limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.chords import ChordAccounting
from pipeweave.orchestrator.engine.maps import Items
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.messaging.batching import MESSAGES_PER_FAN_OUT
from pipeweave.orchestrator.queueing import durations, widths
from pipeweave.orchestrator.state import releasing
from pipeweave.orchestrator.store.database import Transaction


def _unknown(task_id: str) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class Claimant:
    """The worker process that goes on with released steps at once, instead of sending messages for them.

    Args:
        worker: the process as claims name it.
        queue: where messages about joins go.
        room: how many released steps it continues.
        queues: that it consumes, by default `queue` alone; steps of other queues are left to other workers.
        tasks: that it has loaded; None for every task. Steps of other tasks are left to other workers.
        usual_seconds: how long a call of a task usually takes there (s), by its id; None while unknown, and
            of a task whose calls should not follow each other. Short steps that meet again go on together
            (branches.py).
    """

    worker: str
    queue: str
    room: int = 1
    queues: tuple[str, ...] = ()
    tasks: Container[str] | None = None
    usual_seconds: Callable[[str], float | None] = _unknown

    @property
    def served(self) -> list[str]:
        """The queues whose steps it may continue."""
        return list(self.queues or (self.queue,))

    def may_take(self, task_id: str) -> bool:
        """Whether it can call this task."""
        return self.tasks is None or task_id in self.tasks


class Release:
    """Releases task runs of one run in one transaction.

    Args:
        chords: names the joins whose chords count a message.
        touched: collects the tasks whose limits must be filled.
        claimant: continues released steps; None sends a message for each of them.
    """

    def __init__(
        self,
        tx: Transaction,
        run: RunHeader,
        chords: ChordAccounting,
        touched: TouchedLimits,
        claimant: Claimant | None,
    ) -> None:
        self._tx = tx
        self._run = run
        self._chords = chords
        self._touched = touched
        self._claimant = claimant
        self._room = 0 if claimant is None else claimant.room
        # Task runs that the claimant runs now.
        self.continued: list[TaskRun] = []

    def steps(self, ordinals: Sequence[int]) -> list[TaskRun]:
        """Release pending steps that are no maps, given in the order of their ordinals."""
        continued = [] if self._feeds_gathered(ordinals) else self._callable(ordinals)[: self._room]
        self._room -= len(continued)
        released = releasing.release(
            self._tx,
            self._run.id,
            ordinals,
            continued=continued,
            worker=self._claimant.worker if self._claimant else None,
            queues=self._claimant.served if self._claimant else (),
        )
        self.send(released)
        return released

    def _callable(self, ordinals: Sequence[int]) -> Sequence[int]:
        claimant, plan = self._claimant, self._run.plan
        if claimant is None or claimant.tasks is None:
            return ordinals
        return [each for each in ordinals if claimant.may_take(plan[each].step.task)]

    def _feeds_gathered(self, ordinals: Sequence[int]) -> bool:
        """Whether a gathered join follows: it counts messages, so each of these steps needs a message."""
        return any(self._run.plan.gathered(ordinal) for ordinal in ordinals)

    def due(self, task_run_ids: Sequence[UUID]) -> None:
        """Release task runs whose next attempt is due. Their messages count for no join: the message of the
        first attempt has counted already.
        """
        queued: list[Released] = []
        for task_run in releasing.release_due(self._tx, self._run.id, task_run_ids):
            if task_run.status is TaskStatus.READY:
                self._touched.note(self._run.tenant, [task_run.task_id])
            else:
                queued.append(as_released(task_run))
        self._tx.send(*widths.together(self._tx, self._run.tenant, queued))

    def send(self, released: Sequence[TaskRun]) -> None:
        """Send messages for released task runs: running ones go on here, ready ones wait for their limits."""
        usual = self._usual_seconds(released)
        queued = (each for each in released if each.status is TaskStatus.QUEUED)
        counts = Counter(each.task_id for each in queued if not each.is_dispatched)
        together = widths.find(self._tx, self._run.tenant, counts)
        for task_run in released:
            match task_run.status:
                case TaskStatus.RUNNING:
                    self.continued.append(task_run)
                case TaskStatus.READY:
                    self._touched.note(self._run.tenant, [task_run.task_id])
                case _:
                    task = task_run.task_id
                    joins = self._chords.joins_of(task_run)
                    self._tx.send(as_released(task_run, joins, usual.get(task), together.get(task, 1)))

    def items(self, items: Items) -> None:
        """Send messages for the items of a map: one entry of the outbox for all of them. Those that are held
        wait for their limit.
        """
        first, count, tenant = items.first, items.count, self._run.tenant
        if first.status is TaskStatus.READY:
            self._touched.note(tenant, [first.task_id])
            return
        task = first.task_id
        usual = durations.find(self._tx, tenant, [task]) if count >= MESSAGES_PER_FAN_OUT else {}
        together = {} if first.is_dispatched else widths.find(self._tx, tenant, {task: count})
        entry = as_released(first, self._chords.joins_of(first), usual.get(task), together.get(task, 1))
        self._tx.send(replace(entry, count=count))

    def _usual_seconds(self, released: Sequence[TaskRun]) -> Mapping[str, float]:
        """How long the tasks usually take (s); read only if the task runs are enough for chunks."""
        if len(released) < MESSAGES_PER_FAN_OUT:
            return {}
        return durations.find(self._tx, self._run.tenant, {each.task_id for each in released})


def as_released(
    task_run: TaskRun, joins: tuple[int, ...] = (), usual_seconds: float | None = None, together: int = 1
) -> Released:
    """The outbox entry of a queued task run.

    Args:
        joins: the joins whose chords count its message.
        usual_seconds: how long its task usually takes (s); None while unknown.
        together: how many of its task share a message.
    """
    return Released(
        task_run.run_id,
        task_run.ordinal,
        task_run.attempt,
        task_run.task_id,
        task_run.queue,
        task_run.priority,
        joins,
        seconds=usual_seconds,
        together=together,
    )
