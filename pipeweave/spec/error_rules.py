"""Says which rule takes care of the error of a step: that of the step itself, or the first that fits (pure).

A rule is named by its place in the document, so that the wait for its run says which one it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeweave.errors import PipeWeaveError
from pipeweave.spec.child_calls import ErrorRule
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.pipeline_spec import StepSpec
from pipeweave.spec.references import compile_value

log = logging.getLogger(__name__)

ON_ERROR: Final = "onError"
_OF_PIPELINE: Final = "errorHandlers"


def constants_of(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the variables that are known before a run begins, by name."""
    return {name: value for name, value in variables.items() if compile_value(value).is_constant}


def fitting(
    step: StepSpec, rules: Sequence[ErrorRule], constants: Mapping[str, Any], error: Mapping[str, Any]
) -> str | None:
    """The name of the rule that takes care of an error; None if no rule does.

    Args:
        step: the one that failed.
        rules: of its pipeline.
        constants: of `constants_of`.
        error: as an expression sees it: {step, code, message, kind, attempts, details}.
    """
    scope = {"error": error, "variables": constants}
    names = names_of(step, rules)
    return next((each for each in names if each == ON_ERROR or _fits(named(step, rules, each), scope)), None)


def _fits(rule: ErrorRule, scope: Mapping[str, Any]) -> bool:
    if rule.condition is None:
        return True
    try:
        return parse_condition(rule.condition).is_true(scope)
    except PipeWeaveError as problem:
        # The step fails by its own error, not by that of a condition which was not written for it.
        log.warning(
            "error_rule.undecided", extra={"condition": rule.condition[:200], "reason": problem.detail}
        )
        return False


def names_of(step: StepSpec, rules: Sequence[ErrorRule]) -> tuple[str, ...]:
    """The names of the rules that may take care of the error of a step."""
    if step.on_error is not None:
        return (ON_ERROR,)
    return tuple(f"{_OF_PIPELINE}[{at}]" for at in range(len(rules)))


def place_of(step: StepSpec, name: str) -> str:
    """Where the body of the rule of this name is in its version."""
    return f"{step.id}.{name}" if name == ON_ERROR else name


def named(step: StepSpec, rules: Sequence[ErrorRule], name: str) -> ErrorRule:
    """The rule of this name, which `fitting` gave."""
    if name == ON_ERROR:
        assert step.on_error is not None
        return step.on_error
    return rules[int(name.removeprefix(f"{_OF_PIPELINE}[").removesuffix("]"))]
