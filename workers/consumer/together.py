"""The part of a message in which many calls run at once: each outcome is stored when its call has ended.

It stands beside the runner's other loop, which calls one function after the other. Both take task runs from
the same message and store outcomes by the same turns. Calls that only wait leave the process idle, so task
runs of other runs, at the front of the queue, join them without a message.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from pipeweave.orchestrator.domain import CallOutcome, TaskRun, has_called, task_run_of
from pipeweave.orchestrator.engine import Turn, Unstarted
from pipeweave.orchestrator.messaging import ALONE_FROM_ATTEMPT
from pipeweave.orchestrator.queueing import alongside
from pipeweave.orchestrator.store import Database, Transaction
from pipeweave.workers.consumer import reconcile
from pipeweave.workers.consumer.async_calls import AsyncCalls, EndedCall
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.life_signs import LifeSigns
from pipeweave.workers.consumer.message import Work
from pipeweave.workers.consumer.watchdog import Watchdog

# While calls run, the main thread looks so often (s) whether the worker was asked to stop.
LOOK_EVERY_S = 0.25
# So long (s) other runs may join the calls of a message. Then the process takes its next message: between two
# messages it is replaced if it has grown old or large.
JOIN_FOR_S = 30.0


class Turns(Protocol):
    """What the runner does for both loops."""

    calls: Calls
    slot: Slot
    queue: str
    worker: str
    durations: CallDurations
    watchdog: Watchdog
    signs: LifeSigns

    @property
    def must_leave(self) -> bool:
        """Whether this process must begin nothing more."""

    def must_stop(self, work: Work, outcomes: Sequence[CallOutcome]) -> bool:
        """Whether the message must not go on here."""

    def keep(self, work: Work, claimed: list[TaskRun]) -> list[TaskRun]:
        """Those of the claimed task runs that this process can call; the others are handed on."""

    def claim(self, tx: Transaction, work: Work, size: int) -> list[TaskRun]:
        """Claim the next task runs of the message."""

    def turn(self, work: Work, outcomes: Sequence[CallOutcome], unstarted: Unstarted | None) -> Turn:
        """The turn that stores outcomes and goes on."""

    def report(self, turn: Turn, work: Work) -> list[TaskRun]:
        """Apply a turn, however long PostgreSQL is away."""

    def hand_over(self, tx: Transaction, work: Work, unstarted: Unstarted) -> None:
        """Hand over task runs that were not begun."""


class Together:
    """Calls the async functions of messages, many at once, and of task runs of other runs beside them.

    Attributes:
        has_abandoned: whether an error ended a message while calls were under way.
    """

    stores = True

    def __init__(self, turns: Turns, database: Database) -> None:
        self._turns = turns
        self._database = database
        self._calls = AsyncCalls(database, turns.calls, turns.slot, turns.signs)
        # The work under way by run; the message's is the first.
        self._works: dict[UUID, Work] = {}
        self._next_look = 0.0
        self.has_abandoned = False

    def call(self, work: Work) -> bool:
        """Call the async functions of claimed task runs, of those that come after them, and of those at the
        front of the queue, until none of them is under way. See `Callee.call`.
        """
        try:
            self._call(work)
        except BaseException:
            # The message ends without the calls under way; this process ends with the next one.
            self._works = {}
            self.has_abandoned = self._calls.abandon() or self.has_abandoned
            raise
        return False

    def _call(self, work: Work) -> None:
        self._works = {work.run.id: work}
        with self._turns.watchdog.together(self._calls.look):
            while self._begin_all(work) or self._calls.count:
                self._go_on(work)
        for each in self._works.values():
            if each.is_in_doubt:
                work.mark_in_doubt()
            if self._turns.must_leave:
                self._hand_over_rest(each)

    def _go_on(self, main: Work) -> None:
        """Wait for a call to end, and store the outcomes of those that have."""
        for ended in self._calls.ended(0.0 if self._has_outcomes else LOOK_EVERY_S):
            self._record(self._works[ended.run_id], ended)
        for work in list(self._works.values()):
            if outcomes := work.ended():
                self._store(work, outcomes, main)
            elif self._turns.must_leave or (work is main and self._turns.must_stop(work, ())):
                self._hand_over_rest(work)
            if work is not main and not (work.claimed or self._calls.count_of(work.run.id)):
                del self._works[work.run.id]

    @property
    def _has_outcomes(self) -> bool:
        return any(each.outcomes for each in self._works.values())

    def _begin_all(self, main: Work) -> bool:
        """Begin as many calls as may run at once. Returns whether any call has ended already."""
        for work in list(self._works.values()):
            self._begin(work)
        while self._join_others(main):
            pass
        return self._has_outcomes

    def _begin(self, work: Work) -> None:
        while not self._turns.must_leave:
            each = work.next_async(self._may_begin)
            if each is None and not self._claim(work):
                break
            if each is not None and (ended := self._calls.begin(work.run, each)) is not None:
                if work.requeues(each, ended.outcome):
                    self._turns.slot.forget([each.id])
                    break  # the outcome of the key's holder has to be stored first
                self._record(work, ended)

    def _may_begin(self, task_run: TaskRun) -> bool:
        return self._turns.calls.is_async(task_run) and self._calls.room(task_run.task_id) > 0

    def _join_others(self, main: Work) -> bool:
        """Begin calls of other runs, if there is room. Returns whether more of them may wait."""
        now = time.monotonic()
        if now < self._next_look or now - main.began > JOIN_FOR_S or main.is_in_doubt:
            return False
        room = {each: self._calls.room(each) for each in self._turns.calls.async_tasks}
        if self._turns.must_leave or max(room.values(), default=0) < 1:
            return False
        queue, worker = main.queue or self._turns.queue, self._turns.worker
        claims = reconcile.when_it_answers(
            lambda: self._database.run(
                lambda tx: alongside.claim(tx, queue, main.run.id, room, worker=worker), is_one=False
            ),
            "claim",
            on_doubt=main.mark_in_doubt,
        )
        for run, attempt, claimed in claims:
            work = self._works.setdefault(run.id, Work(run, attempt, queue=queue))
            work.claimed.extend(self._turns.keep(work, claimed))
            self._begin(work)
        if sum(len(claimed) for _, _, claimed in claims) == alongside.BATCH:
            return True
        self._next_look = time.monotonic() + LOOK_EVERY_S
        return False

    def _claim(self, work: Work) -> bool:
        """Claim the next task runs of the message as far as there is room for their calls. False if there is
        nothing to claim.
        """
        task_id = work.async_task
        room = 0 if task_id is None else self._calls.room(task_id)
        if not work.left or work.claimed or work.is_in_doubt or room < 1:
            return False
        size = room if work.attempt < ALONE_FROM_ATTEMPT else 1
        left = list(work.left)

        def claim(tx: Transaction) -> list[TaskRun]:
            # A transaction that starts over (a deadlock) finds the message as it was.
            work.left = deque(left)
            return self._turns.claim(tx, work, size)

        claimed = reconcile.when_it_answers(
            lambda: self._database.run(claim, is_one=False), "claim", on_doubt=work.mark_in_doubt
        )
        work.claimed.extend(self._turns.keep(work, claimed))
        return bool(work.claimed)

    def _record(self, work: Work, ended: EndedCall) -> None:
        work.record(ended.outcome)
        self._turns.durations.record(work.run.tenant, ended.task_run.task_id, ended.seconds)
        if has_called(ended.outcome):
            self._turns.slot.count(1, isinstance(ended.outcome, tuple), ended.seconds)

    def _store(self, work: Work, outcomes: Sequence[CallOutcome], main: Work) -> None:
        """Store the outcomes of calls beside those that are under way. Until the last of them has ended, this
        process goes on with async steps alone: any other would keep their outcomes waiting. Of other runs it
        does so always.
        """
        turns, is_last = self._turns, work is main and len(self._works) == 1 and not self._calls.count
        must_stop = turns.must_stop(work, outcomes) and (is_last or turns.must_leave)
        turn = replace(turns.turn(work, outcomes, work.take() if must_stop else None), claim_next=None)
        if not is_last and turn.claimant is not None:
            turn = replace(turn, claimant=replace(turn.claimant, tasks=turns.calls.async_tasks))
        claimed = turns.report(turn, work)
        turns.slot.forget([task_run_of(each).id for each in outcomes])
        work.claimed.extend(turns.keep(work, claimed))

    def _hand_over_rest(self, work: Work) -> None:
        """Hand over what waits for calls that take long."""
        if unstarted := work.take():
            reconcile.when_it_answers(
                lambda: self._database.run(lambda tx: self._turns.hand_over(tx, work, unstarted)),
                "hand_over",
                on_doubt=work.mark_in_doubt,
            )
