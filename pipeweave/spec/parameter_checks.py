"""Compare the params of a pipeline's steps with the parameters of their tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.suggestions import did_you_mean

_MOST_ERRORS = 100

Parameters = Mapping[str, Any]
"""The parameters of a task: an input schema, which is strict unless the task takes any name."""


@dataclass(frozen=True, slots=True)
class ParameterError:
    """A param that a task or a pipeline does not take, or one that it needs.

    Args:
        step: whose param it is; None for that of a rule beside the steps.
    """

    field: str
    message: str
    code: str
    step: str | None

    def as_field_error(self) -> FieldError:
        return FieldError(self.field, self.message, self.code)

    def as_graph_error(self) -> GraphError:
        if self.step is None:
            return GraphError(self.code.upper(), f"{self.field}: {self.message}")
        return GraphError(self.code.upper(), f"step {self.step!r}: {self.message}", (self.step,))


def parameter_errors(spec: PipelineSpec, tasks: Mapping[str, Parameters | None]) -> list[ParameterError]:
    """List the params that tasks do not take or miss, at most 100.

    A step without `params` is left out: the run's input fills its parameters.

    Args:
        spec: the pipeline.
        tasks: the parameters of tasks by id; None if they are not known.
    """
    errors = (
        error
        for place, step in spec.all_steps
        if step.has_task and (parameters := tasks.get(step.task)) is not None
        for error in _of_step(place, step, parameters)
    )
    return list(islice(errors, _MOST_ERRORS))


def _of_step(at: str, step: StepSpec, parameters: Parameters) -> Iterator[ParameterError]:
    fields = {str(each["name"]): each for each in parameters["fields"]}
    names = list(step.params or ())
    item = None if step.map is None else step.map.name
    if parameters.get("strict"):
        places = {name: f"{at}.params.{name}" for name in names}
        if item is not None:
            places[item] = f"{at}.map.as"
        takes = f"the task takes {', '.join(fields)}" if fields else "the task takes no parameters"
        for name, place in places.items():
            if name not in fields:
                message = f"task {step.task!r} has no parameter {name!r}; {did_you_mean(name, fields, takes)}"
                yield ParameterError(place, message, "unknown_parameter", step.id)
    if step.params is None:
        return
    if step.map is not None and item is None:
        item = next((name for name in fields if name not in names), None)
    for name, each in fields.items():
        # A parameter `input` gets all the params.
        if each.get("required") and name not in names and name not in (item, "input"):
            message = f"task {step.task!r} needs the parameter {name!r}"
            yield ParameterError(f"{at}.params", message, "missing_parameter", step.id)
