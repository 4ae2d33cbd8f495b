"""Defines what a rerun differs in from its version and from the run before it (pure).

It is kept in the row of the rerun and holds for that run alone: no version is stored for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.spec import PipelineSpec, StepSpec

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunEdits:
    """What was edited for one run.

    Args:
        params: by step, the params in place of those that the version has.
        seen: by reused step, the hash of the input that it has read where that is not the run's own input.
    """

    params: Mapping[str, Params] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, stored: Any) -> RunEdits:
        """Those of the column `edits` of a run; none if it is NULL."""
        return NO_EDITS if stored is None else cls(stored.get("params", {}), stored.get("seen", {}))

    def to_json(self) -> dict[str, Any] | None:
        """As the column has them; None if there are none."""
        shown = {"params": dict(self.params), "seen": dict(self.seen)}
        return {name: each for name, each in shown.items() if each} or None

    @property
    def names(self) -> dict[str, list[str]]:
        """What an event says of them: the steps, and no value."""
        shown = {"editedParams": sorted(self.params), "otherInput": sorted(self.seen)}
        return {name: each for name, each in shown.items() if each}

    def with_params(self, step_id: str, params: Params | None) -> RunEdits:
        """These, with other params of a step; None for those of its version."""
        others = {id: each for id, each in self.params.items() if id != step_id}
        return replace(self, params=others if params is None else {**others, step_id: params})

    def params_of(self, steps: Collection[str]) -> RunEdits:
        """The params of these steps alone."""
        return RunEdits({id: each for id, each in self.params.items() if id in steps})

    def step(self, step: StepSpec) -> StepSpec:
        """A step of the version as the run has it."""
        return replace(step, params=self.params[step.id]) if step.id in self.params else step

    def steps(self, steps: Mapping[str, StepSpec]) -> Mapping[str, StepSpec]:
        """The steps of the version, by id, as the run has them."""
        return {**steps, **{id: self.step(steps[id]) for id in self.params if id in steps}}

    def spec(self, spec: PipelineSpec) -> PipelineSpec:
        """The version as the run has it."""
        return replace(spec, steps=tuple(map(self.step, spec.steps))) if self.params else spec

    def plan(self, plan: Plan) -> Plan:
        """The plan of the version as the run has it: params add no edge, so the graph stays."""
        if not self.params:
            return plan
        return replace(plan, steps=tuple(replace(each, step=self.step(each.step)) for each in plan.steps))


NO_EDITS = RunEdits()
