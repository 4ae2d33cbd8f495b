"""Handles messages in one child process: claims task runs, calls their functions, stores turns.

A turn (engine/turn.py) stores the outcomes of the last calls, releases the steps behind them and claims the
next task runs. So a chain of steps costs one commit per step, and a message with many small task runs one
commit for many of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.domain import (
    UNCOUNTED,
    CallOutcome,
    ChordPart,
    Completion,
    InvalidChord,
    JoinCheck,
    Outgoing,
    TaskRun,
    task_run_of,
)
from pipeweave.orchestrator.engine import (
    Claimant,
    Counting,
    Turn,
    Unstarted,
    conditions,
    hand_over,
    joins,
    losses,
)
from pipeweave.orchestrator.queueing import priorities
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store import Transaction
from pipeweave.workers.consumer import reconcile
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.callees import Callee, SyncCallee
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.dispatches import Dispatches, TakenTasks
from pipeweave.workers.consumer.handed_on_log import HandedOnLog
from pipeweave.workers.consumer.life_signs import LifeSigns
from pipeweave.workers.consumer.message import Message, Work
from pipeweave.workers.consumer.stale_messages import EMPTY_JOIN, StaleMessages
from pipeweave.workers.consumer.together import Together
from pipeweave.workers.consumer.watchdog import Watchdog

log = logging.getLogger(__name__)

# Results wait at most this long before they are stored, however many calls a turn has.
TURN_S = 0.1

_NO_RUN = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """The child process in which a runner works.

    Args:
        worker: the process as claims name it.
        queues: that it serves; messages about joins go to the first.
        slot: its part of the memory that its parent reads.
        is_stopping: whether the worker takes nothing more: it was asked to stop, or it drains.
        is_mixed: whether task runs of different priorities are queued.
        between: called between two messages, by the watchdog's thread.
        leave: ends the process in the middle of a message, when nothing of it is left to do: its parent
            hands it no other message before.
        promotions: how many promotions of PostgreSQL this process or its parent has noticed.
    """

    worker: str
    queues: tuple[str, ...]
    slot: Slot
    is_stopping: Callable[[], bool] = lambda: False
    is_mixed: Callable[[], bool] = lambda: False
    between: Callable[[], None] = lambda: None
    leave: Callable[[], None] = lambda: None
    promotions: Callable[[], int] = lambda: 0


class Runner:
    """Executes messages in one worker process, one at a time."""

    def __init__(self, deployment: Deployment, calls: Calls, process: ChildProcess) -> None:
        self.deployment = deployment
        self.calls = calls
        self.process = process
        self.worker = process.worker
        self.queue = process.queues[0]
        self.tenant = deployment.settings.tenant
        self.slot = process.slot
        self.durations = CallDurations()
        self.dispatches = Dispatches(deployment, process.worker, process.slot, self.durations)
        self._as_claimant = Claimant(
            self.worker,
            self.queue,
            queues=process.queues,
            tasks=TakenTasks(calls.tasks, self.dispatches.tasks),
            usual_seconds=self._usual_seconds,
        )
        self.stale = StaleMessages(deployment.database, deployment.publisher, self.tenant)
        self.handed_on = HandedOnLog()
        self._had_surprise = False
        # Held by the main thread while it works at a message.
        self.at_work = threading.Lock()
        self._promotions = process.promotions()
        self.signs = LifeSigns(deployment.database, process.promotions, calls.is_keyed)
        self.watchdog = Watchdog(
            deployment.database,
            self.durations,
            calls.limit,
            shortest_ms=calls.shortest_heartbeat_ms,
            is_stopping=process.is_stopping,
            store=self._store_beside_a_call,
            fence=process.slot.fence,
            between=self._between,
            signs=self.signs,
        )
        self._functions = SyncCallee(calls, process.slot, self.watchdog, self.durations)
        self.together = Together(self, deployment.database)

    def warm_up(self) -> None:
        """Open the connections, and have PostgreSQL read its catalogs, before the first message arrives.

        Whatever is away is left to that message.
        """
        with suppress(Unavailable), self.deployment.database.statements() as tx:
            claiming.start_with_header(tx, _NO_RUN, [1], 1, worker=self.worker)
        with suppress(Unavailable):
            self.deployment.publisher.depth(self.queue)

    def run(
        self,
        run_id: UUID,
        ordinals: Sequence[int],
        attempt: int,
        part: int,
        joins: Sequence[int],
        *,
        queue: str | None = None,
    ) -> None:
        """Run the task runs that a message names, and the steps that they release for this worker.

        Args:
            queue: where the message was; the worker's first queue by default.
        """
        message = Message(run_id, ordinals, attempt, part, joins, queue or self.queue)
        is_stopping = self.process.is_stopping()
        gives_way = not is_stopping and self.process.is_mixed()
        first = () if is_stopping or gives_way else ordinals[: self._at_once(attempt)]

        def begin(tx: Transaction) -> tuple[Work | None, list[TaskRun]]:
            if gives_way and (instead := self._better(tx, message)):
                return instead
            work, started = self._start(tx, message, first)
            if work is None or started:
                return work, started
            if is_stopping:
                self.hand_over(tx, work, work.take())
                return work, []
            return work, self.claim(tx, work)

        self._begin_message(run_id, ordinals, attempt)
        work, claimed = self.deployment.database.run(begin, is_one=gives_way)
        if work is None:
            self._drop(run_id)
        else:
            self._handle(message, work, claimed)
        self._end_message()
        if not is_stopping:
            self.stale.record(message.queue, bool(claimed))

    def _start(
        self, tx: Transaction, message: Message, first: Sequence[int]
    ) -> tuple[Work | None, list[TaskRun]]:
        """Claim the first task runs of a message. None where this tenant has no such run."""
        run, started = claiming.start_with_header(
            tx, message.run_id, first, message.attempt, worker=self.worker, queue=message.queue
        )
        if run is None or (run.tenant != self.tenant and not started):
            return None, []
        counted = run.plan.countable(message.ordinals, message.joins) if message.joins else ()
        left = deque(message.ordinals[len(first) :])
        return Work(run, message.attempt, left, message.part, counted, queue=message.queue), started

    def _handle(self, message: Message, work: Work, claimed: list[TaskRun]) -> None:
        if work.run.id != message.run_id:
            self.slot.begin(work.run.id, [each.ordinal for each in claimed], work.attempt)
        mine = self.keep(work, claimed)
        self._work_off(work, mine)
        self._count(work, bool(mine))

    def keep(self, work: Work, claimed: list[TaskRun]) -> list[TaskRun]:
        """Those of the claimed task runs that this process can call. The others, and what the message names
        after them, go on to a worker that can call them.
        """
        others = [each for each in claimed if not self.calls.has(work.run, each)]
        if not others:
            return claimed
        # A message names task runs of one task.
        unstarted = Unstarted(others, list(work.left), work.attempt)
        work.left.clear()
        placed = self.deployment.database.run(
            lambda tx: hand_over.hand_on(tx, work.run.id, unstarted, worker=self.worker)
        )
        self.handed_on.log(work.run.tenant, others[0].task_id, placed)
        return [each for each in claimed if each not in others]

    def _better(self, tx: Transaction, message: Message) -> tuple[Work, list[TaskRun]] | None:
        """Start queued task runs with a better priority than those of a message, and put the message back."""
        candidate = priorities.better(
            tx, message.queue, message.run_id, message.ordinals, message.attempt, self._at_once(1)
        )
        if candidate is None:
            return None
        run, started = claiming.start_with_header(
            tx,
            candidate.run_id,
            candidate.ordinals,
            candidate.attempt,
            worker=self.worker,
            queue=message.queue,
        )
        if run is None or not started:
            return None
        tx.send(message.put_back(candidate.named_priority, candidate.named_since, candidate.named_task))
        return Work(run, candidate.attempt, queue=message.queue), started

    def join(self, run_id: UUID, join: int) -> None:
        """Check a join whose chord is full, or that a join check names, and continue with it here."""
        self._begin_message(run_id, (), 1)
        claimant = None if self.process.is_mixed() else self._claimant()
        deployment = self.deployment
        checked = joins.check(
            deployment.database,
            deployment.values,
            run_id,
            join,
            queue=self.queue,
            claimant=claimant,
            tenant=self.tenant,
        )
        if checked.run is None:
            self._drop(run_id)
        else:
            work = Work(checked.run)
            self._work_off(work, self.keep(work, checked.claimed))
        self._end_message()
        self.stale.record(self.queue, bool(checked.claimed), EMPTY_JOIN)

    def _drop(self, run_id: UUID) -> None:
        reason = f"tenant {self.tenant} has no such run"
        log.warning("message.dropped", extra={"run_id": str(run_id), "reason": reason})

    def give_up(self) -> None:
        """After an unexpected error, maybe a task's doing: let go of everything and end the process."""
        try:
            # The rest of the message may fail in the same way again: the tick sends it, after a pause.
            self.give_back_claims(sends_again=False)
        finally:
            self.process.leave()

    def give_back_claims(self, *, sends_again: bool = True) -> None:
        """Give back all claims that this process has in PostgreSQL: see reconcile.py."""
        self.watchdog.settle()
        reconcile.give_back_claims(self.deployment.database, self.worker, self.slot, sends_again=sends_again)
        self.slot.end()

    def _between(self) -> None:
        """Called by the watchdog's thread when no call is under way, and maybe no message."""
        self.process.between()
        if self.at_work.acquire(blocking=False):
            try:
                self._give_back_what_came_back()
            finally:
                self.at_work.release()

    def _give_back_what_came_back(self) -> None:
        """After a promotion of PostgreSQL, before a message: give back the task runs that are `running` in
        this process's name. Their ends were lost, so they would run nowhere.
        """
        promotions = self.process.promotions()
        if promotions > self._promotions:
            self.give_back_claims()
            self._promotions = promotions

    def _begin_message(self, run_id: UUID, ordinals: Sequence[int], attempt: int) -> None:
        # Outcomes that are not stored yet come first: this message might claim a task run of theirs.
        self.watchdog.settle()
        self._give_back_what_came_back()
        self.calls.limit.install()
        self.slot.begin(run_id, ordinals, attempt)

    def _end_message(self) -> None:
        # Until all outcomes are stored, the slot tells the parent which calls were begun.
        self.watchdog.settle()
        self.slot.end()
        if self._is_spoilt:
            self.process.leave()

    @property
    def _is_spoilt(self) -> bool:
        """Whether a task may have left this process in a state in which the next calls fail."""
        return self._had_surprise or self.together.has_abandoned or self.calls.spoilt is not None

    def _work_off(self, work: Work, claimed: list[TaskRun]) -> None:
        work.claimed.extend(claimed)
        while work.claimed:
            is_stored = self._call(work)
            if outcomes := work.ended():
                # Taken once, before the transaction, which may start over.
                unstarted = work.take() if self.must_stop(work, outcomes) else None
                claimed = self.report(self.turn(work, outcomes, unstarted), work)
                work.claimed.extend(self.keep(work, claimed))
                self.slot.stored()
            elif not is_stored:
                return  # the watchdog took the rest of the message
            if work.is_in_doubt:
                work.take()
                self.give_back_claims()

    @property
    def must_leave(self) -> bool:
        return self.process.is_stopping() or self._is_spoilt

    def must_stop(self, work: Work, outcomes: Sequence[CallOutcome]) -> bool:
        return work.is_long or self.must_leave or self._is_outranked(work, outcomes)

    def _is_outranked(self, work: Work, outcomes: Sequence[CallOutcome]) -> bool:
        """Whether a task run is queued with a better priority than all that this message would go on with."""
        if not self.process.is_mixed():
            return False
        next_ordinals = work.next_ordinals(outcomes)
        if not next_ordinals:
            return False
        try:
            with self.deployment.database.statements() as tx:
                return priorities.is_outranked(tx, work.queue or self.queue, work.run.id, next_ordinals)
        except PipeWeaveError:
            return False  # the outcomes have to be stored first

    def _claimant(self) -> Claimant | None:
        return None if self.process.is_stopping() else self._as_claimant

    def _usual_seconds(self, task_id: str) -> float | None:
        return self.durations.usual(self.tenant, task_id) if self.calls.follow(task_id) else None

    def _call(self, work: Work) -> bool:
        """Call claimed task runs, for as long as a turn may take. Returns whether the outcomes are stored."""
        until = time.monotonic() + TURN_S
        while work.claimed and not self.slot.is_full:
            callee = self._callee_of(work.claimed[0])
            if callee.stores and work.outcomes:
                break
            if not callee.call(work) or time.monotonic() > until or self.must_leave:
                return callee.stores
        return False

    def _callee_of(self, task_run: TaskRun) -> Callee:
        if task_run.is_dispatched:
            return self.dispatches
        return self.together if self.calls.is_async(task_run) else self._functions

    def _store_beside_a_call(self, work: Work, outcomes: Sequence[CallOutcome], unstarted: Unstarted) -> None:
        """Store the outcomes before a call that takes long, and hand over the task runs after it."""
        try:
            self.turn(work, outcomes, unstarted).apply(self.deployment.database)
        except PipeWeaveError:
            raise  # it can be tried again
        except Exception:
            log.exception("turn.unstorable")
            self._had_surprise = True
            self._lose(work, outcomes, unstarted)

    def _lose(self, work: Work, outcomes: Sequence[CallOutcome], unstarted: Unstarted) -> None:
        """End calls whose outcomes cannot be stored as lost, and hand over the other task runs."""
        lost = [(task_run_of(each), reconcile.UNSTORED) for each in outcomes]
        # A lost attempt is tried again at once, so no retry is delayed.
        losses.end(self.deployment.database, lost, max_retry_delay_ms=None)
        self.deployment.database.run(lambda tx: self.hand_over(tx, work, unstarted))

    def turn(self, work: Work, outcomes: Sequence[CallOutcome], unstarted: Unstarted | None) -> Turn:
        """The turn that stores outcomes and goes on.

        `unstarted` is handed over because the message must stop; None when the message goes on.
        """
        return Turn(
            work.run,
            outcomes,
            self.queue,
            max_retry_delay_ms=self.deployment.settings.max_retry_delay_ms,
            claimant=self._claimant() if unstarted is None else None,
            counting=Counting.UNCOUNTED if work.part == UNCOUNTED else Counting.COUNTED,
            unstarted=unstarted,
            worker=self.worker,
            claim_next=self._claim_next(work) if work.left and not work.claimed else None,
            chosen=() if unstarted is not None else self._chosen(work, outcomes),
        )

    def _chosen(self, work: Work, outcomes: Sequence[CallOutcome]) -> Collection[int]:
        """The steps behind a sole result of which the condition is known to be true."""
        if len(outcomes) != 1 or not isinstance(outcomes[0], Completion) or not work.run.plan.conditional:
            return ()
        return conditions.known_true(work.run, outcomes[0], self.calls.inputs.held(work.run))

    def _claim_next(self, work: Work) -> Callable[[Transaction], list[TaskRun]]:
        left = list(work.left)

        def claim_next(tx: Transaction) -> list[TaskRun]:
            # A transaction that starts over (a deadlock) finds the message as it was.
            work.left = deque(left)
            return self.claim(tx, work)

        return claim_next

    def claim(self, tx: Transaction, work: Work, size: int | None = None) -> list[TaskRun]:
        """Claim the next task runs of the message that fit in a turn; other workers may have claimed some.

        Args:
            size: how many to claim together, if they are called at once.
        """
        size = size or self._at_once(work.attempt)
        while work.left:
            ordinals = [work.left.popleft() for _ in range(min(size, len(work.left)))]
            started = claiming.start(
                tx, work.run.id, ordinals, work.attempt, worker=self.worker, queue=work.queue
            )
            if started:
                return started
        return []

    def _at_once(self, attempt: int) -> int:
        """How many task runs to claim together."""
        # A later attempt is claimed alone: should its worker die, it is certain that the attempt had begun.
        return self.durations.fitting(TURN_S) if attempt == 1 else 1

    def hand_over(self, tx: Transaction, work: Work, unstarted: Unstarted) -> None:
        hand_over.hand_over(tx, work.run.id, unstarted, worker=self.worker)

    def _count(self, work: Work, was_claimed: bool) -> None:
        """Count the message as one part of each of its chords. A message that ran no task run is no part: it
        makes the chords invalid and sends checks of their joins.
        """
        if work.joins and was_claimed:
            self._publish(
                [ChordPart(work.run.id, join, self.queue, message=work.part) for join in work.joins]
            )
        elif work.joins:
            run_id = work.run.id
            invalid = [InvalidChord(run_id, join) for join in work.joins]
            self._publish([*invalid, *(JoinCheck(run_id, join, self.queue) for join in work.joins)])

    def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        try:
            self.deployment.publisher.publish(outgoing)
        except Exception:
            log.exception("chord.part_lost")

    def report(self, turn: Turn, work: Work) -> list[TaskRun]:
        """Apply a turn; repeat it while PostgreSQL is away, because the outcomes must not be lost."""
        self.watchdog.settle()
        claimed = reconcile.when_it_answers(
            lambda: turn.apply(self.deployment.database), "turn", on_doubt=work.mark_in_doubt
        )
        self._keep_result(turn, claimed)
        return claimed

    def _keep_result(self, turn: Turn, claimed: Sequence[TaskRun]) -> None:
        """Spare the step behind a result that is stored for certain the reading of what was just written."""
        # Successors that the same statement released: no attempt was fenced.
        for completion in turn.fast_completions if claimed else ():
            if completion.output.path is not None:
                continue
            successors = turn.run.plan.successors(completion.task_run.ordinal)
            for each in claimed:
                if each.ordinal in successors:
                    self.calls.inputs.keep(turn.run, each, completion)
