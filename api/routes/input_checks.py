"""Inputs against the schemas of the tasks that will get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.errors import FieldError, InputValidationFailed
from pipeweave.orchestrator.registry.services import TaskRow
from pipeweave.schema.validation import validate_input
from pipeweave.spec.pipeline_spec import PipelineSpec

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
        raise InputValidationFailed(
            f"the input does not fit the schema of {', '.join(faults)}",
            errors=_field_errors(faults, "input"),
            validationErrors=shown(faults),
        )


def refuse_runs(faults: Sequence[Faults]) -> None:
    """Raise when one of a batch's inputs has any; a field says which, as in `runs[3].input.to`.

    Raises:
        InputValidationFailed: with one FieldError each.
    """
    errors = [error for at, found in enumerate(faults) for error in _field_errors(found, f"runs[{at}].input")]
    if errors:
        wrong = [at for at, found in enumerate(faults) if found]
        raise InputValidationFailed(
            f"{len(wrong)} of {len(faults)} inputs do not fit their schema, first that of runs[{wrong[0]}]",
            errors=errors[:MAX_SHOWN],
        )


def _field_errors(faults: Faults, under: str) -> list[FieldError]:
    return [
        FieldError(f"{under}.{each.field}" if each.field else under, each.message, each.code)
        for found in faults.values()
        for each in found
    ][:MAX_SHOWN]
