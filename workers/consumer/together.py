"""The part of a message in which many calls run at once: each outcome is stored when its call has ended.

It stands beside the runner's other loop, which calls one function after the other. Both take task runs from
the same message and store outcomes by the same turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pipeweave.orchestrator.domain import CallOutcome, TaskRun, task_run_of
from pipeweave.orchestrator.engine import Turn, Unstarted
from pipeweave.orchestrator.messaging import ALONE_FROM_ATTEMPT
from pipeweave.orchestrator.store import Database, Transaction
from pipeweave.workers.consumer import reconcile
from pipeweave.workers.consumer.async_calls import AsyncCalls, Ended
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.message import Work
from pipeweave.workers.consumer.watchdog import Watchdog

# While calls run, the main thread looks so often (s) whether the worker was asked to stop.
LOOK_EVERY_S = 0.25


class Turns(Protocol):
    """What the runner does for both loops."""

    calls: Calls
    slot: Slot
    durations: CallDurations
    watchdog: Watchdog

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
    """Calls the async functions of messages, many at once."""

    def __init__(self, turns: Turns, database: Database) -> None:
        self._turns = turns
        self._database = database
        self._calls = AsyncCalls(database, turns.calls, turns.slot)

    def call(self, work: Work) -> None:
        """Call the async functions of claimed task runs, and of those that come after them, until none of
        them is under way.
        """
        with self._turns.watchdog.together(self._calls.look):
            while self._begin(work) or self._calls.count:
                self._go_on(work)
        if self._turns.must_leave:
            self._hand_over_rest(work)

    def abandon(self) -> bool:
        """After an error: cancel what is under way. Returns whether there was anything."""
        return self._calls.abandon()

    def _go_on(self, work: Work) -> None:
        """Wait for a call to end, and store the outcomes of those that have."""
        for each in self._calls.ended(0.0 if work.outcomes else LOOK_EVERY_S):
            self._note(work, each)
        if outcomes := work.ended():
            self._store(work, outcomes)
        elif self._turns.must_stop(work, ()):
            self._hand_over_rest(work)

    def _begin(self, work: Work) -> bool:
        """Begin as many calls as may run at once. Returns whether any call has ended already."""
        while not self._turns.must_leave:
            each = work.next_async(self._may_begin)
            if each is None and not self._claim(work):
                break
            if each is not None and (ended := self._calls.begin(work.run, each)) is not None:
                if work.requeues(each, ended.outcome):
                    self._turns.slot.forget([each.ordinal])
                    break  # the outcome of the key's holder has to be stored first
                self._note(work, ended)
        return bool(work.outcomes)

    def _may_begin(self, task_run: TaskRun) -> bool:
        return self._turns.calls.is_async(task_run) and self._calls.room(task_run.task_id) > 0

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

    def _note(self, work: Work, ended: Ended) -> None:
        work.note(ended.outcome)
        self._turns.durations.note(work.run.tenant, ended.task_run.task_id, ended.seconds)

    def _store(self, work: Work, outcomes: Sequence[CallOutcome]) -> None:
        """Store the outcomes of calls beside those that are under way. Until the last of them has ended, this
        process goes on with async steps alone: any other would keep their outcomes waiting.
        """
        turns, is_last = self._turns, not self._calls.count
        must_stop = turns.must_stop(work, outcomes) and (is_last or turns.must_leave)
        turn = replace(turns.turn(work, outcomes, work.take() if must_stop else None), claim_next=None)
        if not is_last and turn.claimant is not None:
            turn = replace(turn, claimant=replace(turn.claimant, tasks=turns.calls.async_tasks))
        claimed = turns.report(turn, work)
        turns.slot.forget([task_run_of(each).ordinal for each in outcomes])
        work.claimed.extend(turns.keep(work, claimed))

    def _hand_over_rest(self, work: Work) -> None:
        """Hand over what waits for calls that take long."""
        if unstarted := work.take():
            reconcile.when_it_answers(
                lambda: self._database.run(lambda tx: self._turns.hand_over(tx, work, unstarted)),
                "hand_over",
                on_doubt=work.mark_in_doubt,
            )
