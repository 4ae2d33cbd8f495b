"""Checks the input of a run against the input schemas of the pipeline's entry tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.errors import FieldError, InputValidationFailed
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.schema import validate_input
from pipeweave.spec import PipelineSpec

Faults = dict[str, list[FieldError]]


def entry_faults(spec: PipelineSpec, tasks: Mapping[str, TaskRow], value: Any) -> Faults:
    """Entry task -> the errors that its input schema finds in a run's input.

    Steps with `params` are left out, because their input is not the run's. So are maps.
    """
    entries = {
        step.task for step in spec.steps if not step.needs and step.params is None and step.map is None
    }
    faults: Faults = {}
    given = spec.input_with_defaults(value)
    for task_id in sorted(entries & tasks.keys()):
        found = validate_input(tasks[task_id].input_schema, given)
        if found:
            faults[task_id] = found
    return faults


def shown(faults: Faults) -> dict[str, list[dict[str, Any]]]:
    """The faults as JSON."""
    return {task_id: [fault.to_json() for fault in found] for task_id, found in faults.items()}


def refuse(faults: Faults) -> None:
    """Raise an error if there are faults.

    Raises:
        InputValidationFailed: has `validationErrors` by task, and one FieldError per fault.
    """
    if faults:
        raise InputValidationFailed(
            f"the input does not fit the schema of {', '.join(faults)}",
            errors=_field_errors(faults, "input"),
            validationErrors=shown(faults),
        )


def refuse_runs(faults: Sequence[Faults]) -> None:
    """Raise an error if an input of a batch has faults. The fields name the run, e.g. `runs[3].input.to`.

    Raises:
        InputValidationFailed: has one FieldError per fault.
    """
    errors = [
        error for index, found in enumerate(faults) for error in _field_errors(found, f"runs[{index}].input")
    ]
    if errors:
        wrong = [index for index, found in enumerate(faults) if found]
        raise InputValidationFailed(
            f"{len(wrong)} of {len(faults)} inputs do not fit their schema, first that of runs[{wrong[0]}]",
            errors=errors[:MOST_ERRORS],
        )


def _field_errors(faults: Faults, prefix: str) -> list[FieldError]:
    return [
        FieldError(f"{prefix}.{fault.field}" if fault.field else prefix, fault.message, fault.code)
        for found in faults.values()
        for fault in found
    ][:MOST_ERRORS]
