"""Runs that go their way by chance, through the real verbs: what workers, ticks and people may do to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.states import FINAL_RUN
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import fast_path
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.runs import deadlines, orphans, triggering
from pipeweave.orchestrator.state import claiming, rows
from pipeweave.orchestrator.state.rows import COLUMNS
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec.rules import FAIL_FAST, FAILURE_MODES
from support.oracle import random_graph
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, header
from support.stored_values import VALUES

# The tasks of the model, as a RunDriver registers them.
_TASKS = {"act": "noop", "act_limited": "limited"}
_ENDINGS = (
    PERMANENT,
    TRANSIENT,
    TRANSIENT,
    failure.silent(1000),
    failure.lost("its worker is gone", is_certain=False),
)


class RandomHistory:
    """One run of a random pipeline.

    Args:
        driver: whose tenant it is.
        seed: the same one leads to the same history.
    """

    def __init__(self, driver: RunDriver, seed: int) -> None:
        self.driver = driver
        self.chance = random.Random(seed)
        document, self.wishes = random_graph(self.chance, f"random-{seed}")
        steps = {step["id"]: step for step in document["steps"]}
        self.driver.store(
            {id: step["needs"] for id, step in steps.items()},
            id=document["id"],
            tasks={id: _TASKS[step["task"]] for id, step in steps.items()},
            maps={id: step["map"]["over"] for id, step in steps.items() if "map" in step},
        )
        mode = self.chance.choice(FAILURE_MODES)
        self._continued: list[TaskRun] = []
        self.pipeline_id: str = document["id"]
        self.run_id: UUID = driver.trigger(document["id"], self.wishes, failure_mode=mode)

    def step(self) -> bool:
        """Let something happen to the run; often nothing that changes it. False if it is over."""
        with suppress(Conflict), self.driver.database.transaction() as tx:
            if self._status(tx) in FINAL_RUN:
                return False
            self._happening()(tx)
        return True

    def _happening(self) -> Callable[[Transaction], object]:
        happenings: list[tuple[Callable[[Transaction], object], int]] = [
            (self._work, 20),
            (self._work_straight, 8),
            (self._give_back, 2),
            (self._release_due, 4),
            (self._check, 20),
            (self._lose, 2),
            (self._orphan, 0 if self.chance.random() < 0.9 else 1),
            (self._end_run, 0 if self.chance.random() < 0.9 else 1),
            (self._retry, 1),
        ]
        works, weights = zip(*happenings, strict=True)
        (work,) = self.chance.choices(works, weights)
        return work

    def go(self, most: int = 400) -> None:
        """Let things happen for that many steps, or until the run is over and nobody wants it to go on."""
        for _ in range(most):
            if not self.step() and (self.chance.random() < 0.4 or not self.retry()):
                return

    def retry(self) -> bool:
        """Retry one of the run's dead letters. Whether there was one that could be."""
        with suppress(Conflict), self.driver.database.transaction() as tx:
            return self._retry(tx)
        return False

    # --- workers ------------------------------------------------------------------------------------------

    def _work(self, tx: Transaction) -> None:
        """End claimed task runs; the task runs that go on are ended by the next call, as turns do it."""
        started, self._continued = self._continued or self._claim(tx, self.chance.randint(1, 3)), []
        claimant = Claimant("w1", self._queue(tx)) if self.chance.random() < 0.5 else None
        if started:
            outcomes = [self._outcome(tx, each) for each in started]
            turn = Turn(
                header(tx, self.run_id),
                outcomes,
                started[0].queue,
                claimant=claimant,
                max_retry_delay_ms=None,
            )
            self._continued = turn.store(tx)

    def _work_straight(self, tx: Transaction) -> None:
        run, queue = header(tx, self.run_id), self._queue(tx)
        started = self._claim(tx, 1)
        claimant = Claimant("w2", queue, usual_seconds=lambda _: 0.0)
        while started:
            completions = [Completion(each, VALUES.keep({"by": each.step_id})) for each in started]
            if not fast_path.applies_to_all(run, completions):
                break
            started = fast_path.complete_and_go_on(tx, run, completions, claimant)

    def _give_back(self, tx: Transaction) -> None:
        running = self._some(tx, "running", 3)
        claiming.give_back(tx, running)

    def _lose(self, tx: Transaction) -> None:
        lost = [(each, self.chance.choice(_ENDINGS)) for each in self._some(tx, "running", 2)]
        Turn(
            header(tx, self.run_id),
            lost,
            self._queue(tx),
            counting=Counting.UNCOUNTED,
            max_retry_delay_ms=None,
        ).store(tx)

    def _claim(self, tx: Transaction, most: int) -> list[TaskRun]:
        found = self._some(tx, "queued", most)
        same = [each.ordinal for each in found if each.attempt == found[0].attempt]
        if not same:
            return []
        return claiming.start(
            tx, self.run_id, same, found[0].attempt, worker=self.chance.choice(["w1", "w2#3"])
        )

    def _fails(self, each: TaskRun) -> bool:
        wished = self.wishes["fail"].get(each.step_id)
        if each.map_index is not None:
            return each.map_index in (wished or ())
        return wished is not None or self.chance.random() < 0.05

    def _outcome(self, tx: Transaction, each: TaskRun) -> CallOutcome:
        if self._fails(each):
            return each, self.chance.choice(_ENDINGS)
        return self._completion(tx, each)

    def _completion(self, tx: Transaction, each: TaskRun) -> Completion:
        chosen = self.wishes["choose"].get(each.step_id) if each.kind == "task" else None
        return Completion(each, VALUES.keep({"by": each.step_id}), None if chosen is None else tuple(chosen))

    # --- ticks and people ---------------------------------------------------------------------------------

    def _release_due(self, tx: Transaction) -> None:
        waiting = tx.execute(
            "SELECT t.id FROM task_runs AS t WHERE t.run_id = :run_id AND t.due_at IS NOT NULL"
            " AND t.status = 'pending'",
            {"run_id": self.run_id},
        )
        advance = Advance(tx, header(tx, self.run_id))
        advance.release_due([row.id for row in waiting])
        advance.close()

    def _check(self, tx: Transaction) -> None:
        """A chord fires, or the tick asks: for any join, whether it is due or not."""
        advance = Advance(tx, run := header(tx, self.run_id))
        advance.check(self.chance.choice([END, *range(1, len(run.plan.steps) + 1)]))
        advance.close()

    def _retry(self, tx: Transaction) -> bool:
        """A dead letter is tried again. False when there is none."""
        letters = tx.execute(
            "SELECT d.id FROM dead_letters AS d WHERE d.run_id = :run_id AND d.retried_at IS NULL"
            " ORDER BY d.id",
            {"run_id": self.run_id},
        ).scalars()
        if not letters:
            return False
        dead_letters.retry(tx, self.driver.tenant, self.chance.choice(letters))
        return True

    def _orphan(self, tx: Transaction) -> None:
        if header(tx, self.run_id).failure_mode != FAIL_FAST:
            return
        touched = TouchedLimits()
        orphans.cancel_unstarted(
            tx, self.driver.tenant, [self.chance.choice(list(_TASKS.values()))], "removed", touched
        )
        touched.fill(tx)

    def _end_run(self, tx: Transaction) -> None:
        if self._status(tx) in FINAL_RUN:
            return
        if self.chance.random() < 0.5:
            triggering.cancel(tx, self.driver.tenant, self.run_id)
        else:
            deadlines.time_out_run(
                tx, self.driver.tenant, self.run_id, deadlines.RUN_TIMEOUT, "it took too long"
            )

    # --- looking ------------------------------------------------------------------------------------------

    def _status(self, tx: Transaction) -> str:
        return str(
            tx.execute("SELECT r.status FROM runs AS r WHERE r.id = :id", {"id": self.run_id}).scalar_one()
        )

    def _some(self, tx: Transaction, status: str, most: int) -> list[TaskRun]:
        result = tx.execute(
            f"SELECT {COLUMNS} FROM task_runs AS t WHERE t.run_id = :run_id AND t.status = :status"
            " ORDER BY t.id",
            {"run_id": self.run_id, "status": status},
        )
        found = rows.read(result)
        return self.chance.sample(found, min(most, len(found)))

    def _queue(self, tx: Transaction) -> str:
        row: Any = tx.execute(
            "SELECT t.queue FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id",
            {"run_id": self.run_id, "id": ids.task_run_id(self.run_id, 1)},
        ).one()
        return str(row.queue)
