"""Says which values of a run decide about a step: those that its condition and what the engine does refer to.

Pure, and done once per version of a pipeline. What the values come to is in `engine/step_results.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeweave.spec import (
    Approval,
    Choice,
    EngineStep,
    Gather,
    LoopStep,
    SignalWait,
    Sleep,
    StepSpec,
    Transform,
    default_value,
)
from pipeweave.spec.expressions import Expression, Path, parse_condition
from pipeweave.spec.references import Reference, compile_value, referenced_parts

# Roots whose values are those of single steps.
OF_STEPS = frozenset({"steps", "status", "errors"})
# The root whose values are resolved in the process that calls a task, and nowhere else.
SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values of a run that are needed.

    Args:
        outputs: by step id, the places in its list that are needed; None for the whole output.
        outcomes: the ids of the steps of which the status or the error is needed.
        roots: the other roots of what is needed: `input`, `variables`, `trigger`, `run`.
        has_payload: whether the input is needed as the payload of the trigger.
        secrets: the names of the secrets that are needed.
    """

    outputs: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    outcomes: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    has_payload: bool = False
    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, paths: Iterable[Reference]) -> Wanted:
        """What these paths refer to."""
        listed = list(paths)
        return cls(
            referenced_parts(listed),
            frozenset(str(_first(each)) for each in listed if each.root in ("status", "errors")),
            frozenset(each.root for each in listed) - OF_STEPS - {SECRET},
            any(each.root == "trigger" and _first(each) in (None, "payload") for each in listed),
            frozenset(str(_first(each)) for each in listed if each.root == SECRET),
        )

    def __or__(self, other: Wanted) -> Wanted:
        outputs = dict(self.outputs)
        for step, places in other.outputs.items():
            known = outputs.get(step, frozenset())
            outputs[step] = None if known is None or places is None else known | places
        return Wanted(
            outputs,
            self.outcomes | other.outcomes,
            self.roots | other.roots,
            self.has_payload or other.has_payload,
            self.secrets | other.secrets,
        )


def _first(path: Reference) -> Any:
    return path.path[0] if path.path else None


@dataclass(frozen=True, slots=True)
class StepValues:
    """What a step evaluates when its predecessors let it run.

    Args:
        condition: None for a step without one.
        conditions: of the cases of a choice (None for the default), or of the failures of a transform.
        wanted: the values that all of it refers to.
    """

    condition: Expression | None
    conditions: tuple[Expression | None, ...]
    wanted: Wanted

    @classmethod
    def of(cls, step: StepSpec) -> StepValues:
        """What a step evaluates."""
        condition = None if step.condition is None else parse_condition(step.condition)
        conditions = tuple(
            None if each is None else parse_condition(each) for each in _conditions(step.decides)
        )
        expressions = [each for each in (condition, *conditions) if each is not None]
        paths = [_reference(path) for each in expressions for path in each.references]
        templates = [_template(step.decides), dict(step.requires or {})]
        wanted = Wanted.of([*paths, *compile_value(templates).references])
        if isinstance(step.decides, Gather):
            wanted |= Wanted(dict.fromkeys(step.needs), frozenset((*step.needs, *step.decides.members)))
        return cls(condition, conditions, wanted)


def wanted_around(steps: Sequence[StepSpec]) -> Wanted:
    """The values that the steps of a body, and of those in it, refer to and that are not their own."""
    wanted = Wanted()
    for step in steps:
        wanted |= StepValues.of(step).wanted
        wanted |= Wanted.of(compile_value([step.params, step.over, *_params_of_calls(step)]).references)
        if isinstance(step.decides, LoopStep) and step.decides.until is not None:
            wanted |= Wanted.of(_reference(each) for each in parse_condition(step.decides.until).references)
        for _, body in step.bodies:
            wanted |= wanted_around(body.steps)
    own = {step.id for step in steps}
    outputs = {step: places for step, places in wanted.outputs.items() if step not in own}
    return replace(wanted, outputs=outputs, outcomes=wanted.outcomes - own)


def _params_of_calls(step: StepSpec) -> list[Any]:
    """The params of the pipelines that run when the step fails, and to take it back."""
    calls = (None if step.on_error is None else step.on_error.call, step.compensate)
    return [each.params for each in calls if each is not None]


def _reference(path: Path) -> Reference:
    return Reference(path.text, path.root, path.step, path.path)


def _conditions(decides: EngineStep | None) -> list[str | None]:
    match decides:
        case Choice():
            return [each.condition for each in decides.cases]
        case Transform():
            return [each.condition for each in decides.fail_if]
        case _:
            return []


def _template(decides: EngineStep | None) -> Any:
    """All values of a step of the engine that may hold expressions in `${…}`."""
    match decides:
        case Transform():
            return [decides.output, *(each.message for each in decides.fail_if)]
        case Sleep():
            return [decides.seconds, decides.until]
        case SignalWait():
            return [list(decides.names), default_value(decides)]
        case Approval():
            return [decides.title, list(decides.assignees), decides.context, default_value(decides)]
        case _:
            return None
