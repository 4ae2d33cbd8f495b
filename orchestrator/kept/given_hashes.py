"""Gives the hash of what a task run was given, from hashes that are stored: no value is loaded for it.

A step without params is given the run's input, and its hash is that of the input. For any other, and for
maps and their items, it is the SHA-256 of canonical JSON: what is written there, and the hashes of what it
refers to, as {"params": …, "over": …, "item": …, "mapIndex": …, "input": hash, "steps": {step: hash}} with
those members that there are. So task runs of one step have equal hashes if they were given the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.store.values import canonical
from pipeweave.spec import CALLED, ITEMS, STEPS, WITH_ITEMS, PipelineSpec, StepSpec
from pipeweave.spec.references import Reference, compile_value


@dataclass(frozen=True, slots=True)
class GivenHashes:
    """Hashes of what the task runs of one run were given. It parses the params of each step once.

    Args:
        input: the hash of the run's input.
        steps: the steps of the pipeline, by id, as the run has them.
        seen: the hash of the input that a reused step has read, where it is not that of the run.
    """

    input: str
    steps: Mapping[str, StepSpec]
    seen: Mapping[str, str] = field(default_factory=dict)
    _references: dict[tuple[str, str], tuple[Reference, ...]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, row: Any, spec: PipelineSpec) -> GivenHashes:
        """Those of a run.

        Args:
            row: has its `inputs_hash` and its `edits`.
            spec: its version.
        """
        edits = RunEdits.of_json(row.edits)
        return cls(row.inputs_hash, edits.steps(spec.by_id), edits.seen)

    def of(
        self,
        step_id: str,
        kind: str,
        outputs: Mapping[str, str | None],
        item: Any = None,
        map_index: int | None = None,
    ) -> str | None:
        """The hash of one task run; None where the pipeline has no such step.

        Args:
            kind: `task`, `map` or `item`.
            outputs: the hashes of outputs by step; a step without one counts as null.
            item: of an item.
            map_index: of an item.
        """
        step = self.steps.get(step_id)
        if step is None:
            return None
        content, read = _written(step, kind), self.seen.get(step_id, self.input)
        if not content and kind in STEPS:
            return read
        references = self._references_of(step, kind, content)
        if kind in ITEMS:
            content["item"] = item
        if "params" not in content and kind in CALLED:
            content["input"] = read
        for each in references:
            if each.root == "input":
                content["input"] = read
            elif each.root == "mapIndex":
                content["mapIndex"] = map_index
            elif each.step is not None:
                content.setdefault("steps", {})[each.step] = outputs.get(each.step)
        return hashlib.sha256(canonical(content)).hexdigest()

    def referenced(self, step_id: str, kind: str) -> set[str]:
        """The steps whose outputs `of` needs for such a task run."""
        step = self.steps.get(step_id)
        references = () if step is None else self._references_of(step, kind, _written(step, kind))
        return {each.step for each in references if each.step is not None}

    def _references_of(self, step: StepSpec, kind: str, content: Mapping[str, Any]) -> tuple[Reference, ...]:
        key = step.id, kind
        if key not in self._references:
            self._references[key] = compile_value(dict(content)).references
        return self._references[key]


def _written(step: StepSpec, kind: str) -> dict[str, Any]:
    if kind in WITH_ITEMS:
        return {"over": step.over}
    return {} if step.params is None else {"params": dict(step.params)}
