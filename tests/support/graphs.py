"""Plans to draw: of real workflows, and of edges."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.spec import MapSpec, PipelineSpec, StepSpec

WORKFLOWS = sorted((Path(__file__).parents[1] / "flows" / "workflows").glob("*.json"))
# The ids of their steps begin with what the step does.
_NUMBER = re.compile(r"_?(ID)?\d+$")


def plan_of_workflow(name: str) -> Plan:
    """The plan of a workflow whose tasks are what its steps do."""
    document = json.loads((WORKFLOWS[0].parent / f"{name}.json").read_text())
    steps = (
        StepSpec(each["id"], _NUMBER.sub("", each["id"]), tuple(each["parents"]))
        for each in document["steps"]
    )
    return compile_plan(PipelineSpec(name, tuple(steps)))


def plan_of(
    needs: Mapping[str, Sequence[str]], tasks: Mapping[str, str] | None = None, maps: Sequence[str] = ()
) -> Plan:
    """The plan of steps with these predecessors.

    Args:
        needs: step -> its predecessors.
        tasks: step -> its task; by default each step runs a task of its own name.
        maps: the steps that are maps.
    """
    steps = (
        StepSpec(
            step, (tasks or {}).get(step, step), tuple(before), map=MapSpec([1]) if step in maps else None
        )
        for step, before in needs.items()
    )
    return compile_plan(PipelineSpec("drawn", tuple(steps)))
