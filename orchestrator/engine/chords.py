"""Counts final predecessors of wide joins as parts of chords.

A transaction that completes a predecessor of a wide join (plan.py) does not lock the row of the join, which
would be the bottleneck of the run. Instead a counter in Redis, the chord of the join, counts parts. A part is
either a whole message, counted by the worker when the message ends, or a single predecessor that ends on its
own time (a limited task run, a map, any predecessor of an irregular join). Where a predecessor cannot be
counted, a join check asks PostgreSQL instead: it costs a query, and is always right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from pipeweave.orchestrator.domain.outbox import Chord, ChordPart, JoinCheck
from pipeweave.orchestrator.domain.plan import WIDE, JoinKind
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.maps import Items
from pipeweave.orchestrator.store.database import Transaction


class Counting(Enum):
    """How chords count the task runs that a transaction ends or releases."""

    # The message under way is one part of the gathered joins and maps of its task runs.
    COUNTED = "counted"
    # No message will count for the task runs that end here: a worker was lost, a message was handed over.
    UNCOUNTED = "uncounted"
    # A dead letter is retried: chords have counted these task runs before. No released step is a part of a
    # chord, and joins are checked in PostgreSQL.
    REOPENED = "reopened"


class ChordAccounting:
    """The chords of one run, as one transaction changes them. It writes to the outbox only.

    Args:
        queue: where join checks and the messages of full chords go.
    """

    def __init__(self, tx: Transaction, run: RunHeader, counting: Counting, queue: str) -> None:
        self._tx = tx
        self._run = run
        self._counting = counting
        self.queue = queue

    # --- sizes --------------------------------------------------------------------------------------------

    def open_irregular(self, reused: Collection[int] = ()) -> None:
        """Size the chords of irregular joins when the run begins, as their predecessors are released at
        different times.

        Args:
            reused: steps that are completed already, and will not be counted.
        """
        plan = self._run.plan
        irregular = [j for j, kind in plan.joins.items() if kind is JoinKind.IRREGULAR]
        sizes = {j: sum(each not in reused for each in plan.predecessors(j)) for j in irregular}
        self._tx.send(*(Chord(self._run.id, j, size) for j, size in sizes.items() if size))

    def open_gathered(self, released: Sequence[TaskRun], maps: Sequence[int]) -> None:
        """Size the chords of gathered joins by the predecessors that count on their own: released task runs
        with a limit, and maps. Messages add themselves when they are made.
        """
        if self._counting is Counting.REOPENED:
            return
        members: dict[int, int] = {}
        for task_run in released:
            for join in self._run.plan.gathered(task_run.ordinal):
                members[join] = members.get(join, 0) + (1 if task_run.ends_on_its_own else 0)
        for ordinal in maps:
            for join in self._run.plan.gathered(ordinal):
                members[join] = members.get(join, 0) + 1
        self._tx.send(*(Chord(self._run.id, join, count) for join, count in members.items()))

    def open_map(self, ordinal: int, items: Items) -> None:
        """Size the chord of a map that was laid out; a narrow map has none."""
        if items.count >= WIDE:
            on_their_own = items.count if items.first.ends_on_its_own else 0
            self._tx.send(Chord(self._run.id, ordinal, on_their_own))

    def joins_of(self, released: TaskRun) -> tuple[int, ...]:
        """The joins whose chords the message of a released task run is a part of."""
        if released.map_parent is not None:
            return (released.map_parent,)
        if self._counting is Counting.REOPENED:
            return ()
        return self._run.plan.gathered(released.ordinal)

    # --- parts --------------------------------------------------------------------------------------------

    def steps_ended(self, ordinals: Iterable[int], ended: Mapping[int, TaskRun]) -> list[int]:
        """Count final steps for the wide joins behind them, or send checks of those joins.

        Args:
            ended: the task runs of those steps that ended by a call; a step that was skipped in this
                transaction is not among them.

        Returns:
            The narrow joins behind the steps, the last first: they are decided in this transaction.
        """
        narrow: dict[int, None] = {}
        checks: dict[int, None] = {}
        for ordinal in ordinals:
            for join in self._run.plan.successors(ordinal):
                kind = self._run.plan.joins[join]
                if not kind.is_wide:
                    narrow[join] = None
                elif not self._counts(kind, join, ordinal, ended.get(ordinal)):
                    checks[join] = None
        self._tx.send(*(JoinCheck(self._run.id, join, self.queue) for join in checks))
        return sorted(narrow, reverse=True)

    def _counts(self, kind: JoinKind, join: int, ordinal: int, task_run: TaskRun | None) -> bool:
        """Count a final step for a wide join. False when the join must be checked."""
        if self._counting is Counting.REOPENED:
            return False
        if kind is JoinKind.IRREGULAR or _counts_on_its_own(task_run):
            self._tx.send(ChordPart(self._run.id, join, self.queue, ordinal=ordinal))
            return not _may_have_counted(task_run)
        # The message of the step is counted, unless the step was skipped or its message is no part.
        return task_run is not None and self._counting is Counting.COUNTED

    def items_ended(self, parent: int, items: Sequence[TaskRun]) -> None:
        """Count final items for their wide map, or send a check of the map."""
        for item in items:
            if item.ends_on_its_own:
                self._tx.send(ChordPart(self._run.id, parent, self.queue, ordinal=item.ordinal))
        is_counted = self._counting is Counting.COUNTED
        if not is_counted and any(not item.ends_on_its_own or _may_have_counted(item) for item in items):
            self._tx.send(JoinCheck(self._run.id, parent, self.queue))


def _counts_on_its_own(task_run: TaskRun | None) -> bool:
    """Task runs with a limit, those of HTTP services and maps end on their own time."""
    return task_run is not None and (task_run.ends_on_its_own or task_run.kind == "map")


def _may_have_counted(task_run: TaskRun | None) -> bool:
    """A task run that was reopened ends a second time, and its chord does not count it again."""
    return task_run is not None and task_run.attempt > 1
