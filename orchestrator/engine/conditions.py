"""Evaluates conditions of next steps before a result is stored, from values that the process holds already.

The output of a completed step never changes, and neither does the input of a run: a condition that is true by
them is true in the transaction, too, so the fast path releases its step like a plain one. A condition that is
false, or that needs another value or the time, is left to the transaction (acting.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_values import StepValues
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import referred_values
from pipeweave.orchestrator.store.stored_json import read_back

_NONE: Final = frozenset[int]()


@dataclass(frozen=True, slots=True)
class HeldValues:
    """Values of a run that a process has read before.

    Args:
        outputs: of completed steps, by their ids.
        input: the run's input, if it is held.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict)
    has_input: bool = False
    input: Any = None


def known_true(run: RunHeader, completion: Completion, held: HeldValues) -> frozenset[int]:
    """The successors of a completed step of which the condition is known to be true.

    Args:
        completion: as it will be stored.
        held: what the process holds of the run besides the new output.
    """
    plan, done = run.plan, completion.task_run
    if not plan.conditional or done.map_parent is not None or completion.output.path is not None:
        return _NONE
    successors = [each for each in plan.successors(done.ordinal) if each in plan.conditional]
    if not successors:
        return _NONE
    outputs = {**held.outputs, done.step_id: read_back(completion.output.inline or "null")}
    return frozenset(each for each in successors if _is_true(run, plan.values[each], outputs, held))


def _is_true(run: RunHeader, values: StepValues, outputs: Mapping[str, Any], held: HeldValues) -> bool:
    condition, wanted = values.condition, values.wanted
    if condition is None or condition.uses_now or wanted.outcomes or "loop" in wanted.roots:
        return False
    if not outputs.keys() >= wanted.outputs.keys():
        return False
    needs_input = not wanted.roots <= {"run"}
    if needs_input and not held.has_input:
        return False
    try:
        own = referred_values.of_run(run, wanted.roots, held.input)
        return condition.is_true({"input": held.input, "steps": outputs, **own})
    except PipeWeaveError:
        return False  # the transaction tells why
