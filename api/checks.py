"""Inputs against the schemas of the tasks that will get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.errors import FieldError, InputValidationFailed
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.schema import validate_input
from pipeweave.spec import PipelineSpec

# As many per task as anyone reads; a list of 100,000 wrong entries has as many errors.
MAX_SHOWN = 100

Faults = dict[str, list[FieldError]]


def entry_faults(spec: PipelineSpec, tasks: Mapping[str, TaskRow], value: Any) -> Faults:
    """Entry task -> what its input schema finds wrong with a run's input, for steps without `params`."""
    entries = {
        step.task for step in spec.steps if not step.needs and step.params is None and step.map is None
    }
    faults: Faults = {}
    given = spec.input_with_defaults(value)
    for task_id in sorted(entries & tasks.keys()):
        found = validate_input(tasks[task_id].input_schema, given)
        if found:
            faults[task_id] = found[:MAX_SHOWN]
    return faults


def shown(faults: Faults) -> dict[str, list[dict[str, Any]]]:
    """The faults as the API shows them."""
    return {task_id: [fault.to_json() for fault in found] for task_id, found in faults.items()}


def refuse(faults: Faults) -> None:
    """Raise when there are any.

    Raises:
        InputValidationFailed: with `validationErrors` by task and one FieldError each.
    """
    if faults:
        errors = [
            FieldError(_under_input(each.field), each.message, each.code)
            for found in faults.values()
            for each in found
        ]
        raise InputValidationFailed(
            f"the input does not fit the schema of {', '.join(faults)}",
            errors=errors[:MAX_SHOWN],
            validationErrors=shown(faults),
        )


def _under_input(field: str) -> str:
    return f"input.{field}" if field else "input"
