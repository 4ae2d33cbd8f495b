"""A worker and a broker in the test's own thread: messages, chords and calls, one after the other.

Nothing heals what is lost here, no tick looks: a run that does not get to its end by its messages alone has
been forgotten by one of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import Suspend, ids
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.outbox import UNCOUNTED, ChordPart, JoinCheck, Outgoing
from pipeweave.orchestrator.domain.task_run import Completion, Suspended, TaskRun
from pipeweave.orchestrator.engine import conditions
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.conditions import HeldValues
from pipeweave.orchestrator.engine.release import Claimant, as_released
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.messaging.batching import RunMessage, group_into_messages
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, header, settle

Call = tuple[str, int | None]


@dataclass(slots=True)
class InlineWorker:
    """A broker and a worker for one tenant, in the test's own thread.

    Args:
        driver: the tenant; its database sends to this broker from now on.
        fails: the failures of steps, and of items of maps as (step, index), whose function raises.
        tries: step -> how many of its attempts fail, for now.
        chooses: step -> the successors it chooses.
        suspends: the steps whose calls suspend themselves, until somebody reports.
        chance: draws the message that is consumed next; without it they are consumed as they came.
        calls: how often each step of the tenant's runs, with its map index, was called.
        attempts: step, map index, attempt and code version of each such call, in the order of the calls.
        waiting: the messages in the queue.
        sizes: how many parts each chord waits for, by run and join.
        counted: the parts that each chord counted.
        name: under which it claims.
    """

    driver: RunDriver
    fails: dict[Any, Failure] = field(default_factory=dict)
    tries: Mapping[str, int] = field(default_factory=dict)
    chooses: dict[str, Sequence[str]] = field(default_factory=dict)
    suspends: Collection[str] = ()
    chance: random.Random | None = None
    calls: Counter[Call] = field(default_factory=Counter)
    attempts: list[tuple[str, int | None, int, int]] = field(default_factory=list)
    waiting: list[RunMessage | JoinCheck] = field(default_factory=list)
    sizes: dict[tuple[UUID, int], int] = field(default_factory=dict)
    counted: dict[tuple[UUID, int], set[str]] = field(default_factory=dict)
    name: str = "w1"

    def __post_init__(self) -> None:
        self.driver.database.sender = self.receive

    # --- the broker ---------------------------------------------------------------------------------------

    def receive(self, outbox: Sequence[Outgoing]) -> None:
        """Take what a transaction sent, as publisher.py sends it: sizes, messages, checks, parts."""
        posting = group_into_messages(outbox)
        for chord, size in posting.chord_sizes.items():
            if size:
                self.sizes[chord] = size
                self.counted[chord] = set()
        self.waiting += [*posting.messages, *posting.checks]
        for part in posting.parts:
            self._count(part)

    def _count(self, part: ChordPart) -> None:
        chord = part.run_id, part.join
        if chord not in self.sizes:
            return
        self.counted[chord].add(part.id)
        if len(self.counted[chord]) == self.sizes[chord]:
            del self.sizes[chord]
            self.waiting.append(JoinCheck(part.run_id, part.join, part.queue))

    def forget_chords(self) -> None:
        """Lose the sizes of all chords, as if their keys had expired."""
        self.sizes.clear()

    # --- the worker ---------------------------------------------------------------------------------------

    def consume_all(self, most: int = 100_000) -> None:
        """Consume messages until none is left, `most` of them at most."""
        while self.waiting and most:
            self.consume_one()
            most -= 1

    def consume_one(self) -> None:
        """Consume one message, with the calls that follow from it in this worker."""
        place = 0 if self.chance is None else self.chance.randrange(len(self.waiting))
        message = self.waiting.pop(place)
        if isinstance(message, JoinCheck):
            self.driver.check(message.run_id, message.join)
            return
        was_claimed = False
        for ordinal in message.ordinals:
            with self.driver.database.transaction() as tx:
                claimed = claiming.start(tx, message.run_id, [ordinal], message.attempt, worker=self.name)
            was_claimed = was_claimed or bool(claimed)
            while claimed:
                claimed = self._run(claimed[0], message)
        if was_claimed:
            self.receive(
                [ChordPart(message.run_id, j, message.queue, message=message.part) for j in message.joins]
            )
        else:
            self.receive([JoinCheck(message.run_id, join, message.queue) for join in message.joins])

    def send_queued(self, run_id: UUID) -> None:
        """Send messages for the queued task runs of a run, as the tick does when theirs were lost."""
        queued = f"SELECT {COLUMNS} FROM task_runs AS t WHERE run_id = :run_id AND status = 'queued'"
        rows = self.driver.rows(queued, run_id=run_id)
        self.receive([as_released(of_row(row)) for row in rows])

    def take_over(self) -> None:
        """Do what other processes released: their messages went to another broker."""
        driver = self.driver
        queued = "SELECT run_id, id, attempt FROM task_runs WHERE tenant_id = :tenant AND status = 'queued'"
        for row in driver.rows(queued, tenant=driver.tenant):
            with driver.database.transaction() as tx:
                [started] = claiming.start(
                    tx, row.run_id, [ids.ordinal_of(row.id)], row.attempt, worker=self.name
                )
                settle(tx, started, output={"of": started.step_id})
        self.consume_all()

    def _run(self, each: TaskRun, message: RunMessage) -> list[TaskRun]:
        failure = self.fails.get(each.step_id) or self.fails.get((each.step_id, each.map_index))
        if each.attempt <= self.tries.get(each.step_id, 0):
            failure = TRANSIENT
        chosen = self.chooses.get(each.step_id) if each.kind == "task" else None
        database = self.driver.database
        kept = self.driver.values.keep({"of": each.step_id})
        completion = Completion(each, kept, None if chosen is None else tuple(chosen))
        with database.transaction() as tx:
            run = header(tx, each.run_id)
        # The tick also admits what other tests left pending, and sends it here: it runs, and is not counted.
        if run.tenant == self.driver.tenant:
            self.calls[each.step_id, each.map_index] += 1
            self.attempts.append((each.step_id, each.map_index, each.attempt, each.code_version))
        is_taken_along = self.chance is None or self.chance.random() < 0.5
        outcome: CallOutcome = completion if failure is None else (each, failure)
        if failure is None and each.step_id in self.suspends:
            outcome = Suspended(each, Suspend.callback())
        turn = Turn(
            run,
            [outcome],
            message.queue,
            claimant=Claimant(self.name, message.queue) if is_taken_along else None,
            counting=Counting.UNCOUNTED if message.part == UNCOUNTED else Counting.COUNTED,
            max_retry_delay_ms=None,
            chosen=conditions.known_true(run, completion, HeldValues({}, True, run.input)),
        )
        return turn.apply(database)


def failing(*steps: str | tuple[str, int]) -> dict[Any, Failure]:
    """For `InlineWorker.fails`: these steps, or items of maps as (step, index), fail for good."""
    return dict.fromkeys(steps, PERMANENT)
