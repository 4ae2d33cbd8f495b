"""Checks the input of a run against the input schemas of its pipeline and of the pipeline's entry tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.errors import FieldError, InputValidationFailed
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.schema import run_input_errors, validate_input
from pipeweave.spec import PipelineSpec


@dataclass(frozen=True, slots=True)
class InputFaults:
    """The mistakes in one input.

    Args:
        pipeline_id: the pipeline.
        own: those that the pipeline's own schema finds.
        of_tasks: those that the schemas of entry tasks find, by task.
    """

    pipeline_id: str = ""
    own: Sequence[FieldError] = ()
    of_tasks: Mapping[str, Sequence[FieldError]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.own or self.of_tasks)

    def are_refused(self, mode: str | None) -> bool:
        """Whether a validation mode refuses them; without a mode, only the pipeline's own schema refuses."""
        return bool(self) if mode == "strict" else mode is None and bool(self.own)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """The mistakes by pipeline and task."""
        mistakes = {task_id: list(errors) for task_id, errors in self.of_tasks.items()}
        if self.own:
            mistakes[self.pipeline_id] = [*self.own, *mistakes.get(self.pipeline_id, ())]
        return {name: [each.to_json() for each in errors] for name, errors in mistakes.items()}

    def errors(self, prefix: str) -> list[FieldError]:
        """The mistakes as errors of the fields of a request."""
        mistakes = [*self.own, *(each for errors in self.of_tasks.values() for each in errors)]
        return [_below(prefix, each) for each in mistakes][:MOST_ERRORS]


NO_FAULTS = InputFaults()


def _below(prefix: str, error: FieldError) -> FieldError:
    path = f"{prefix}.{error.field}" if error.field else prefix
    return FieldError(path, error.message, error.code, error.expected)


def faults_of(spec: PipelineSpec, tasks: Mapping[str, TaskRow], value: Any) -> InputFaults:
    """The mistakes in a run's input; NO_FAULTS if there are none.

    Entry steps with `params` are left out, because their input is not the run's. So are maps.
    """
    return faults_of_each(spec, tasks, [value])[0]


def faults_of_each(
    spec: PipelineSpec, tasks: Mapping[str, TaskRow], values: Sequence[Any]
) -> list[InputFaults]:
    """As `faults_of`, of the inputs of several runs."""
    entries = {step.task for step in spec.steps if not step.needs and step.params is None and step.is_called}
    schemas = [(task_id, tasks[task_id].input_schema) for task_id in sorted(entries & tasks.keys())]
    schemas = [(task_id, schema) for task_id, schema in schemas if schema is not None]
    if spec.input_schema is None and not schemas:
        return [NO_FAULTS] * len(values)
    return [_faults(spec, schemas, value) for value in values]


def _faults(
    spec: PipelineSpec, schemas: Sequence[tuple[str, Mapping[str, Any] | None]], value: Any
) -> InputFaults:
    run_input = spec.input_with_defaults(value)
    checked = [(task_id, validate_input(schema, run_input)) for task_id, schema in schemas]
    by_task = {task_id: errors for task_id, errors in checked if errors}
    own = run_input_errors(spec.input_schema, value)
    return InputFaults(spec.id, own, by_task) if own or by_task else NO_FAULTS


def refuse(faults: InputFaults, mode: str | None) -> None:
    """Raise an error if there are faults that the mode refuses.

    Raises:
        InputValidationFailed: has `validationErrors` by pipeline and task, and one FieldError per fault.
    """
    if faults.are_refused(mode):
        errors = faults.errors("input")
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InputValidationFailed(
            f"pipeline {faults.pipeline_id!r}: {errors[0].field}: {errors[0].message}{more}",
            errors=errors,
            validationErrors=faults.to_json(),
        )


def refuse_runs(faults: Sequence[InputFaults], mode: str | None) -> None:
    """Raise an error if the mode refuses an input of a batch. The fields name the run: `runs[3].input.to`.

    Raises:
        InputValidationFailed: has one FieldError per fault.
    """
    faulty = [(index, each) for index, each in enumerate(faults) if each is not NO_FAULTS]
    wrong = [index for index, each in faulty if each.are_refused(mode)]
    if wrong:
        errors = [error for index in wrong for error in faults[index].errors(f"runs[{index}].input")]
        raise InputValidationFailed(
            f"{len(wrong)} of {len(faults)} inputs are not valid; {errors[0].field}: {errors[0].message}",
            errors=errors[:MOST_ERRORS],
        )
