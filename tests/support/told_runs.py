"""Runs of random pipelines by the engine, with all that comes from outside, in random order.

Messages come in any order. A run that `loses` lives among processes that die after some commit: messages and
what should have followed are gone then, and only what the tick finds in PostgreSQL goes on.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import async_reports, ids
from pipeweave.callback_tokens import Callback
from pipeweave.errors import Conflict
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.queueing import limits, paused_runs
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.runs import pausing, triggering
from pipeweave.orchestrator.waits import approvals, callbacks, left_children, sending
from pipeweave.orchestrator.waits.approvals import Vote
from support.branch_values import NEVER, Branches
from support.branches import REMEDIES
from support.forgetful import look_at_all, tree
from support.inline_worker import InlineWorker
from support.run_driver import Clock, RunDriver, header, release_due

FINAL = ("completed", "partial", "failed", "cancelled")
# Longer than any wait of a random pipeline.
LONG = timedelta(days=8)
MOST_MOVES = 3_000

_OPEN = """
SELECT w.run_id, w.task_run_id, w.kind, t.step_id, t.attempt FROM waits AS w
    JOIN task_runs AS t ON t.run_id = w.run_id AND t.id = w.task_run_id
WHERE w.root_run_id = :root AND w.kind IN ('approval', 'callback') ORDER BY w.task_run_id
"""

# What must not be after any commit, whoever died behind it: a wait of what does not wait, and the other way
# round; a quiet run of which something works.
_WRONG = """
SELECT 'a wait of ' || t.status AS wrong FROM waits AS w
    JOIN task_runs AS t ON t.run_id = w.run_id AND t.id = w.task_run_id
WHERE w.run_id = ANY(:runs) AND t.status <> 'waiting'
UNION ALL
SELECT t.step_id || ' waits for nothing' FROM task_runs AS t
WHERE t.run_id = ANY(:runs) AND t.status = 'waiting' AND (t.kind <> 'map' OR t.error_code IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM waits AS w WHERE w.run_id = t.run_id AND w.task_run_id = t.id)
UNION ALL
SELECT t.step_id || ' of a quiet run is ' || t.status FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
WHERE t.run_id = ANY(:runs) AND r.quiet_since IS NOT NULL AND r.finished_at IS NULL
    AND t.status IN ('ready', 'queued', 'running')
"""


@dataclass(slots=True)
class ToldRun:
    """A run, and what happens to it.

    Args:
        clock: of the driver's database.
        chance: draws what happens next.
        branches: what the run does, and what comes from outside.
        loses: whether processes die.
        is_changed: whether somebody pauses, resumes and cancels the run.
        is_cancelled: whether somebody did, before its ending began.
        is_stopped: whether somebody cancelled it in its ending.
        signalled: the signals that were sent.
    """

    driver: RunDriver
    worker: InlineWorker
    clock: Clock
    chance: random.Random
    branches: Branches
    run_id: UUID
    loses: bool = False
    is_changed: bool = False
    is_cancelled: bool = False
    is_stopped: bool = False
    signalled: set[str] = field(default_factory=set)

    @property
    def runs(self) -> list[UUID]:
        """The run, and those inside of it, oldest first."""
        return tree(self.driver, self.run_id)

    def to_end(self) -> None:
        """Let all happen until nothing of the run, and of those inside of it, is open."""
        for _ in range(MOST_MOVES):
            if self._is_over():
                return
            if self.is_changed and self.chance.random() < 0.1:
                self._change()
            self._work()
        raise AssertionError(f"the run does not end: {self.driver.statuses(self.run_id)}")

    def _is_over(self) -> bool:
        return all(self.driver.run(each).status in FINAL for each in self.runs)

    def _work(self) -> None:
        before, calls = self._status(), self._own_calls()
        self.worker.consume_all(most=self.chance.randint(1, 4))
        if self.loses and self.chance.random() < 0.3:
            self.worker.waiting.clear()
            self.worker.forget_chords()
        if self.chance.random() < 0.2:
            self._hear(self.chance.random() < 0.5)
        if not self.worker.waiting:
            self._tick()
        if before == "paused" and not self.loses:
            assert self._own_calls() == calls, "something of a paused run was called"

    def _own_calls(self) -> Counter[str]:
        """The calls of steps but those of REMEDIES: what follows the last step of one is not paused."""
        inside = {step["id"] for each in REMEDIES for step in each["steps"]}
        return Counter({step: number for step, number in self.calls().items() if step not in inside})

    def _status(self) -> str:
        return str(self.driver.run(self.run_id).status)

    # --- what people do -----------------------------------------------------------------------------------

    def _change(self) -> None:
        driver, status = self.driver, self._status()
        verb = self.chance.choices(["pause", "resume", "cancel"], [4, 6, 0.7])[0]
        if verb == "cancel" and status in ("running", "paused", "error_handling"):
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, self.run_id))
            self.is_stopped |= status == "error_handling"
            self.is_cancelled |= status != "error_handling"
        # A run that has ended, or is in its ending, cannot be paused.
        with suppress(Conflict):
            if verb == "pause":
                driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, self.run_id))
            if verb == "resume":
                driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, self.run_id))

    def _hear(self, is_all: bool) -> None:
        """Hear what comes from outside: signals, also before their waits, decisions and reports."""
        driver = self.driver
        for name in sorted(self.branches.signals.keys() - self.signalled):
            if is_all or self.chance.random() < 0.5:
                kept = driver.values.keep(self.branches.signals[name])
                with suppress(Conflict), driver.database.transaction() as tx:
                    sending.send(tx, driver.tenant, self.run_id, name, kept, once=name, by="sender")
                self.signalled.add(name)
        for wait in driver.rows(_OPEN, root=self.run_id):
            if is_all or self.chance.random() < 0.5:
                # It may end meanwhile, by what was heard before.
                with suppress(Conflict):
                    self._answer(wait)

    def _answer(self, wait: Any) -> None:
        driver = self.driver
        if wait.kind == "approval":
            decision = self.branches.decisions[wait.step_id]
            if decision is not NEVER:
                vote = Vote("ann", (), decision)
                driver.database.run(lambda tx: approvals.vote(tx, driver.tenant, wait.task_run_id, vote))
        elif (report := self.branches.reports[wait.step_id]) is not NEVER:
            kept = driver.values.keep(async_reports.of_callback(report))
            with driver.database.transaction() as tx:
                named = Callback(wait.task_run_id, wait.attempt, tx.now + LONG)
                callbacks.receive(tx, named, kept)

    # --- what the tick does -------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Do what the tick finds, and let time pass if that is nothing."""
        before = self._place()
        assert self.driver.rows(_WRONG, runs=self.runs) == []
        paused_runs.take_back_waiting(self.driver.database)
        with self.driver.database.transaction() as tx:
            limits.fill(tx, self.driver.tenant, ["act_limited"])
        for run_id in self.runs:
            self._heal(run_id)
            release_due(self.driver, run_id, self.clock())
        left_children.check(self.driver.database)
        look_at_all(self.driver, self.run_id)
        self._hear(is_all=True)
        if before == self._place() and not self.worker.waiting:
            self.clock.ahead += LONG

    def _heal(self, run_id: UUID) -> None:
        """Decide joins that nobody has decided, and send messages again that were lost."""
        if self.driver.run(run_id).status in FINAL:
            return
        with self.driver.database.transaction() as tx:
            checks = closed_joins(tx, {run_id: header(tx, run_id).plan})
        if not self.loses and not self.worker.waiting:
            assert not checks, "nothing was lost, and yet a join is closed that nobody has decided"
        for each in checks:
            self.driver.check(run_id, each.join)
        if self.loses:
            self.worker.send_queued(run_id)

    def _place(self) -> tuple[Any, ...]:
        """How far it has come: the events, and which child each wait is for."""
        counted = "SELECT count(*) FROM events WHERE run_id = ANY(:ids)"
        children = "SELECT data ->> 'run' FROM waits WHERE root_run_id = :id ORDER BY run_id, task_run_id"
        return *self.driver.rows(counted, ids=self.runs), *self.driver.rows(children, id=self.run_id)

    # --- what came of it ----------------------------------------------------------------------------------

    def handled(self) -> set[str]:
        """The steps of which something took care of an error."""
        handling = {each.task_run_id for each in self.driver.events(self.run_id, "task_run.handling")}
        return {each.step_id for each in self.driver.task_runs(self.run_id) if each.id in handling}

    def ending(self) -> list[str]:
        """The parts that followed the last step."""
        return [part for each in self.driver.events(self.run_id, "run.ending") for part in each.data["parts"]]

    def parts(self) -> list[Any]:
        """The rows of the runs of these parts."""
        of_run = "SELECT * FROM runs WHERE parent_run_id = :id AND parent_task_run_id = :id ORDER BY id"
        return self.driver.rows(of_run, id=self.run_id)

    def output(self, run_id: UUID) -> Any:
        """The output of a run."""
        with verify.snapshot(self.driver.database) as tx:
            shown = outputs.of_run(tx, self.driver.tenant, self.driver.run(run_id), Loading(False))
        return shown["output"]

    def calls(self) -> Counter[str]:
        """How often each step was called."""
        calls = Counter[str]()
        for (step, _), number in self.worker.calls.items():
            calls[step] += number
        return calls

    def check(self) -> None:
        """Check what must be so of every run that has ended."""
        assert self.driver.rows("SELECT 1 FROM waits WHERE root_run_id = :id", id=self.run_id) == []
        with verify.snapshot(self.driver.database) as tx:
            assert [verify.run(tx, each) for each in self.runs] == [[] for _ in self.runs]
        shown = [ids.show(ids.RUN, each) for each in self.runs if self.driver.run(each).quiet_since]
        assert not shown, "a run that has ended is not quiet"
