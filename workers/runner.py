"""One message as a line of small steps: claim, call, store, go on.

A turn is one transaction: it stores what the last calls gave, releases what waited for them and claims what
comes next, so that a chain pays one commit per step and a chunk of small task runs one commit for many.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from pipeweave.errors import Unavailable
from pipeweave.orchestrator import run_header, straight, task_runs
from pipeweave.orchestrator.advance import Advance, Going, as_released
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.failure import Failure
from pipeweave.orchestrator.outbox import UNCOUNTED, JoinCheck, Part
from pipeweave.orchestrator.run_header import RunHeader
from pipeweave.orchestrator.task_run import Completion, TaskRun
from pipeweave.workers.calls import Calls
from pipeweave.workers.pace import Pace

log = logging.getLogger(__name__)

# A message holds its worker for about this long; then what is left goes to whoever is free.
MESSAGE_S = 1.0
# Results wait at most this long before they are stored, however many calls a turn has.
TURN_S = 0.1

# Between tries to store a result while PostgreSQL is away (s): five minutes in all.
_PAUSES = (0.1, 0.2, 0.5, 1, *[2.0] * 150)

Outcome = Completion | tuple[TaskRun, Failure]
R = TypeVar("R")


@dataclass(slots=True)
class Work:
    """A message under way: task runs still to claim, and how its end is counted."""

    run: RunHeader
    attempt: int = 1
    left: deque[int] = field(default_factory=deque)
    part: int = UNCOUNTED
    joins: tuple[int, ...] = ()
    began: float = field(default_factory=time.monotonic)

    @property
    def is_long(self) -> bool:
        return time.monotonic() - self.began > MESSAGE_S


class Runner:
    """Executes messages in one worker process, one at a time."""

    def __init__(self, deployment: Deployment, calls: Calls, *, worker: str, queue: str) -> None:
        self.deployment = deployment
        self.calls = calls
        self.worker = worker
        self.queue = queue
        self.pace = Pace()

    def run(
        self, run_id: UUID, ordinals: Sequence[int], attempt: int, part: int, joins: Sequence[int]
    ) -> None:
        """Run the task runs a message names, and what they release for this worker."""

        def begin(tx: Transaction) -> tuple[Work | None, list[TaskRun]]:
            run = run_header.load(tx, run_id)
            if run is None:
                return None, []
            work = Work(run, attempt, deque(ordinals), part, tuple(joins))
            return work, self._claim(tx, work)

        # A look and a claim: each is whole in its one statement.
        work, claimed = self.deployment.database.run(begin, is_one=False)
        if work is None:
            log.warning("message.dropped", extra={"run_id": str(run_id), "reason": "no such run"})
            return
        self._work_off(work, claimed)
        self._count(work, bool(claimed))

    def join(self, run_id: UUID, join: int) -> None:
        """Release a join whose chord fired or that someone asked about, and go on with it here."""

        def check(tx: Transaction) -> tuple[RunHeader | None, list[TaskRun]]:
            run = run_header.load(tx, run_id)
            if run is None:
                return None, []
            advance = Advance(tx, run, Going(self.worker, self.queue), room=1, queue=self.queue)
            advance.check(join)
            return run, advance.close()

        run, claimed = self.deployment.database.run(check)
        if run is not None:
            self._work_off(Work(run), claimed)

    def _work_off(self, work: Work, claimed: list[TaskRun]) -> None:
        while claimed:
            outcomes = self._call(work, claimed)
            rest = claimed[len(outcomes) :]
            is_straight = self._is_straight(work, outcomes, rest)
            turn = self._straight_turn if is_straight else self._turn
            claimed = self._report(
                functools.partial(turn, work, outcomes, rest), work, is_one=not is_straight
            )

    def _call(self, work: Work, claimed: Sequence[TaskRun]) -> list[Outcome]:
        """Call the functions of claimed task runs, for as long as a turn may take."""
        until = time.monotonic() + TURN_S
        outcomes: list[Outcome] = []
        for each in claimed:
            started = time.monotonic()
            outcomes.append(self.calls.call(work.run, each))
            ended = time.monotonic()
            self.pace.note(each.task_id, ended - started)
            if ended > until:
                break
        return outcomes

    @staticmethod
    def _is_straight(work: Work, outcomes: Sequence[Outcome], rest: Sequence[TaskRun]) -> bool:
        if len(outcomes) > 1 or rest or work.is_long:
            return False
        return isinstance(outcomes[0], Completion) and straight.is_straight(work.run, outcomes[0])

    def _straight_turn(
        self, work: Work, outcomes: Sequence[Outcome], rest: list[TaskRun], tx: Transaction
    ) -> list[TaskRun]:
        """A turn of one statement: see straight.py."""
        completion = outcomes[0]
        assert isinstance(completion, Completion)
        going = Going(self.worker, self.queue)
        return straight.go_on(tx, work.run, completion, going) or self._claim(tx, work)

    def _turn(
        self, work: Work, outcomes: Sequence[Outcome], rest: list[TaskRun], tx: Transaction
    ) -> list[TaskRun]:
        """Store outcomes, release what waited for them, claim what comes next; one transaction."""
        going = None if work.is_long else Going(self.worker, self.queue)
        is_counted = work.part != UNCOUNTED
        advance = Advance(tx, work.run, going, room=len(outcomes), queue=self.queue, is_counted=is_counted)
        completions = [each for each in outcomes if isinstance(each, Completion)]
        failed = advance.fail([each for each in outcomes if not isinstance(each, Completion)])
        finished = failed + task_runs.complete(tx, completions)
        chosen = {c.task_run.ordinal: c.selected_next for c in completions if c.selected_next is not None}
        advance.settle(finished, chosen)
        if work.is_long:
            self._hand_over(tx, work, rest)
            rest = []
        fresh = [] if rest else self._claim(tx, work)
        return rest + advance.close() + fresh

    def _claim(self, tx: Transaction, work: Work) -> list[TaskRun]:
        """Claim the next task runs of the message, as many as fit in a turn; others may have taken some."""
        while work.left:
            size = self.pace.fitting(TURN_S)
            ordinals = [work.left.popleft() for _ in range(min(size, len(work.left)))]
            started = task_runs.start(tx, work.run.id, ordinals, work.attempt, worker=self.worker)
            if started:
                return started
        return []

    @staticmethod
    def _hand_over(tx: Transaction, work: Work, rest: Sequence[TaskRun]) -> None:
        """A message that runs long gives back what it did not get to; nothing of it counts as tried."""
        for each in task_runs.give_back(tx, rest):
            tx.send(as_released(each))
        for released in task_runs.queued(tx, work.run.id, list(work.left), work.attempt):
            tx.send(as_released(released))
        work.left.clear()

    def _count(self, work: Work, was_claimed: bool) -> None:
        """This message is one part of its joins. A doubled message counts nothing; it asks PostgreSQL
        instead.
        """
        if work.joins and was_claimed:
            self._publish([Part(work.run.id, join, self.queue, message=work.part) for join in work.joins])
        elif work.joins:
            self._publish([JoinCheck(work.run.id, join, self.queue) for join in work.joins])

    def _publish(self, outgoing: Sequence[Part | JoinCheck]) -> None:
        try:
            self.deployment.canvas.publish(outgoing)
        except Exception:
            log.exception("chord.part_lost")

    def _report(self, turn: Callable[[Transaction], R], work: Work, *, is_one: bool) -> R:
        """Store what was done, however long PostgreSQL is away: the work itself must not be lost."""
        for pause in _PAUSES:
            try:
                return self._transact(turn, work, is_one=is_one)
            except Unavailable as error:
                log.warning("turn.delayed", extra={"run_id": str(work.run.id), "reason": error.detail})
                time.sleep(pause)
        return self._transact(turn, work, is_one=is_one)

    def _transact(self, step: Callable[[Transaction], R], work: Work, *, is_one: bool) -> R:
        """Do a step in a transaction. One that must start over (a deadlock) finds the message as it was."""
        left = list(work.left)

        def from_the_start(tx: Transaction) -> R:
            work.left = deque(left)
            return step(tx)

        return self.deployment.database.run(from_the_start, is_one=is_one)
