"""Caches the values that all calls of a run read: its input and the outputs of its steps.

A thousand items of a map refer to the same list; it is read once per process. Only values of the current run
are kept, and only final ones: the output of a completed step never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from pipeweave.json_values import own_copy
from pipeweave.orchestrator.domain import (
    LAST_ROUND,
    Completion,
    Places,
    RunHeader,
    StepOutcome,
    TaskRun,
    Wanted,
)
from pipeweave.orchestrator.engine import HeldValues, referred_values
from pipeweave.orchestrator.state import outputs
from pipeweave.orchestrator.store import Database, Values, read_back
from pipeweave.workers.consumer import reconcile

# Outputs of up to so many characters are kept instead of being read again: reading them back is cheap.
MOST_KEPT = 4_096


class Inputs:
    """The values of the current run."""

    def __init__(self, database: Database, values: Values) -> None:
        self.database = database
        self._values = values
        self._run: RunHeader | None = None
        self._run_id: UUID | None = None
        self._input: Any = None
        self._outputs: dict[str, Any] = {}

    def input(self, run: RunHeader) -> Any:
        """The run's input."""
        self._switch_to(run)
        return self._input

    def outputs(self, run: RunHeader, step_ids: Collection[str]) -> dict[str, Any]:
        """The outputs of the completed steps among these, by step id."""
        self._switch_to(run)
        missing = [each for each in step_ids if each not in self._outputs]
        if missing:
            # Loaded outside the repeated step: nothing waits for storage that is away.
            places = reconcile.when_it_answers(lambda: self._places(run, missing), "outputs")
            self._outputs |= outputs.load(self._values, places)
        return {each: self._outputs[each] for each in step_ids if each in self._outputs}

    def further(self, run: RunHeader, wanted: Wanted) -> dict[str, Any]:
        """The values of the wanted roots besides `input` and `steps`; how steps ended is read anew."""
        self._switch_to(run)
        last = self.outputs(run, [LAST_ROUND]).get(LAST_ROUND) if "loop" in wanted.roots else None
        own = referred_values.of_run(run, wanted.roots, self._input, last)
        if not wanted.outcomes:
            return own
        outcomes = reconcile.when_it_answers(lambda: self._outcomes(run, wanted.outcomes), "outcomes")
        return own | referred_values.of_outcomes(outcomes, wanted.outcomes)

    def _outcomes(self, run: RunHeader, step_ids: Collection[str]) -> Mapping[str, StepOutcome]:
        with self.database.transaction() as tx:
            return outputs.places_and_outcomes(tx, run, {}, step_ids)[1]

    def keep(self, run: RunHeader, next_one: TaskRun, done: Completion) -> None:
        """Keep a stored output, if it is short and the parameters of the next step refer to it."""
        text, wanted = done.output.inline or "null", run.plan.params.get(next_one.ordinal)
        if wanted is None or done.task_run.step_id not in wanted.outputs or len(text) > MOST_KEPT:
            return
        if run.id == self._run_id and done.task_run.map_parent is None:
            self._outputs[done.task_run.step_id] = read_back(text)

    def held(self, run: RunHeader) -> HeldValues:
        """What is held of a run at this moment; nothing is read."""
        if run.id == self._run_id:
            return HeldValues(self._outputs, True, self._input)
        return HeldValues({}, run.input_path is None, run.input)

    def _places(self, run: RunHeader, step_ids: Collection[str]) -> Places:
        with self.database.transaction() as tx:
            return outputs.places_of_steps(tx, run, step_ids)

    def _switch_to(self, run: RunHeader) -> None:
        if run is not self._run and run.id != self._run_id:
            self._input = self._values.load(run.input, run.input_path)
            self._run_id, self._outputs = run.id, {}
        self._run = run


class UpstreamOutputs(Mapping[str, Any]):
    """The outputs of a step's completed ancestors, each loaded at its first use."""

    def __init__(self, inputs: Inputs, run: RunHeader, step_id: str) -> None:
        self._inputs = inputs
        self._run = run
        self._step_id = step_id

    def __getitem__(self, step_id: str) -> Any:
        if step_id not in self._run.plan.ancestors(self._step_id):
            raise KeyError(step_id)
        return own_copy(self._inputs.outputs(self._run, [step_id])[step_id])

    def __iter__(self) -> Iterator[str]:
        def look() -> list[str]:
            with self._inputs.database.transaction() as tx:
                return outputs.completed(tx, self._run, self._run.plan.ancestors(self._step_id))

        return iter(reconcile.when_it_answers(look, "outputs"))

    def __len__(self) -> int:
        return sum(1 for _ in self)
