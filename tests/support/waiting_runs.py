"""Runs with steps that wait, driven by their verbs: `start` runs a task, the waits follow it, then `end`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.state import signals
from pipeweave.orchestrator.state.signals import NewSignal, Sent
from pipeweave.orchestrator.waits.looking import look_at
from pipeweave.spec import StepSpec
from pipeweave.spec.engine_steps import engine_task
from pipeweave.spec.wait_steps import WaitStep
from support.run_driver import RunDriver, finish_step, header
from support.stored_values import VALUES


@dataclass(slots=True)
class WaitingRuns:
    """Begins runs that wait."""

    driver: RunDriver

    def begin(self, waits: Mapping[str, WaitStep], *, look: bool = True, **spec: Any) -> UUID:
        """Begin a run of which these steps wait, all after `start`; `end` comes after all of them.

        Args:
            look: whether the process lives on after the commit, and looks.
            spec: further members of the pipeline's spec.
        """
        run_id = self.trigger(waits, **spec)
        self.start(run_id, look=look)
        return run_id

    def trigger(self, waits: Mapping[str, WaitStep], **spec: Any) -> UUID:
        """As `begin`, but the waits have not begun: `start` is to be done."""
        self.store(waits, **spec)
        return self.driver.trigger()

    def store(self, waits: Mapping[str, WaitStep], **spec: Any) -> None:
        """Store a pipeline of which these steps wait."""
        between = [
            StepSpec(name, engine_task(step), ("start",), decides=step) for name, step in waits.items()
        ]
        self.driver.store_steps(
            StepSpec("start", "noop"), *between, StepSpec("end", "noop", tuple(waits)), **spec
        )

    def start(self, run_id: UUID, *, look: bool = True) -> None:
        """Do the first step of a run; its waits begin."""
        with self.driver.database.transaction() as tx:
            finish_step(tx, run_id, "start")
            if not look:
                tx._after.clear()

    def task_run(self, run_id: UUID, step: str) -> UUID:
        """The id of a step's task run."""
        with self.driver.database.transaction() as tx:
            return ids.task_run_id(run_id, header(tx, run_id).plan.ordinals[step])

    def send(
        self, run_id: UUID, name: str, payload: Any = None, *, once: str | None = None, look: bool = True
    ) -> Sent:
        """Send a signal to a run.

        Args:
            look: whether the process lives on after the commit, and looks.
        """
        with self.driver.database.transaction() as tx:
            sent = signals.send(
                tx,
                NewSignal(run_id, self.driver.tenant, name, VALUES.keep(payload), once, "ann"),
                event="run.signalled",
                data="{}",
            )
            if not look:
                tx._after.clear()
        return sent

    def look(self, run_id: UUID, *steps: str) -> int:
        """Look at waits; how many ended."""
        keys = [(run_id, self.task_run(run_id, step)) for step in steps]
        return self.driver.database.run(lambda tx: look_at(tx, keys)).ended

    def waits(self, run_id: UUID) -> list[Any]:
        """The rows of the run's open waits."""
        return self.driver.rows("SELECT * FROM waits WHERE run_id = :id ORDER BY task_run_id", id=run_id)

    def output(self, run_id: UUID, step: str) -> Any:
        """The output of a step."""
        [row] = [each for each in self.driver.task_runs(run_id) if each.step_id == step]
        return row.output
