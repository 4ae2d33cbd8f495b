"""Runs with steps that wait, driven by their verbs: `start` runs a task, the waits follow it, then `end`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.engine import waiting
from pipeweave.orchestrator.state import run_headers, signals
from pipeweave.orchestrator.state.signals import NewSignal, Sent
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits.looking import look_at
from pipeweave.spec import PipelineSpec, StepSpec
from pipeweave.spec.engine_steps import engine_task
from pipeweave.spec.wait_steps import WaitStep
from support.run_driver import RunDriver, header
from support.stored_values import VALUES


@dataclass(slots=True)
class WaitingRuns:
    """Begins runs that wait."""

    driver: RunDriver

    def begin(self, waits: Mapping[str, WaitStep], *, look: bool = True, **pipeline: Any) -> UUID:
        """Begin a run of which these steps wait, all after `start`; `end` comes after all of them.

        Args:
            look: whether the process lives on after the commit, and looks.
        """
        run_id = self.driver.begin(
            {"start": [], **{name: ["start"] for name in waits}, "end": [*waits]}, **pipeline
        )
        self.driver.finish(run_id, "start")
        with self.driver.database.transaction() as tx:
            self.wait(tx, run_id, waits)
            if not look:
                tx._after.clear()
        return run_id

    def wait(self, tx: Transaction, run_id: UUID, waits: Mapping[str, WaitStep]) -> None:
        """Let steps of a run that were released wait instead."""
        run = _with_waits(header(tx, run_id), waits)
        tx.cache(run_headers.HEADERS).put(run_id, run)
        for name, step in waits.items():
            tx.execute(
                """UPDATE task_runs SET status = 'pending', queued_at = NULL, kind = 'wait', task_id = :task,
                    code_hash = 'engine', is_limited = false WHERE run_id = :run AND step_id = :step""",
                {"task": engine_task(step), "run": run_id, "step": name},
            )
        ordinals = [run.plan.ordinals[name] for name in waits]
        begun = waiting.begin(tx, run, ordinals, lambda value: value)
        assert not begun.failed, begun.failed

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


def _with_waits(run: RunHeader, waits: Mapping[str, WaitStep]) -> RunHeader:
    steps = [
        StepSpec(each.id, engine_task(waits[each.id]), needs=each.step.needs, decides=waits[each.id])
        if each.id in waits
        else each.step
        for each in run.plan.steps
    ]
    return replace(run, plan=compile_plan(PipelineSpec(id="driven", steps=tuple(steps))))
