"""The values that expressions may name in a run of this process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipeweave import error_kinds
from pipeweave.authoring import describe
from pipeweave.masking import Masking, Masks
from pipeweave.spec import PipelineSpec
from pipeweave.spec.references import resolve
from pipeweave.testing.local_result import StepResult
from pipeweave.testing.local_waits import iso


def values_of_run(
    spec: PipelineSpec, run_id: str, run_input: Any, began_at: datetime, parent: str | None = None
) -> dict[str, Any]:
    """The values of the run itself: `input`, `variables`, `trigger` and `run`.

    Args:
        parent: the id of the run that it belongs to; None for a run of its own.

    Raises:
        InvalidReference, ExpressionFailed: a variable has no value.
    """
    moment = iso(began_at)
    cause = "api" if parent is None else "parent"
    return {
        "input": run_input,
        "variables": resolve(spec.variables, input=run_input, steps={}),
        "trigger": {"type": cause, "id": parent, "actor": None, "timestamp": moment, "payload": run_input},
        "run": {"id": run_id, "pipeline": spec.id, "createdAt": moment, "outcome": None},
    }


def seen_error(step_id: str, result: StepResult, masks: Masks) -> dict[str, Any] | None:
    """The error of a step as an expression sees it; None if it has none."""
    if result.error is None:
        return None
    with Masking(masks):
        raised = describe(result.error)
    stored = {"message": raised.message, "details": raised.details}
    # What is not called has been tried once.
    return error_kinds.as_seen(step_id, raised.code, stored, max(result.attempts, 1))


# What a body sees both of its own steps and of those around it.
_OF_STEPS = ("steps", "status", "errors")


def within(around: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a step of a body may name.

    Args:
        around: those of the step with the body; none for a step of a pipeline.
        own: those of the step, as if it were in a pipeline.
    """
    both = {root: {**around.get(root, {}), **own[root]} for root in _OF_STEPS}
    return {**own, **around, **both}
