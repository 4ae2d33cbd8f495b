"""Compare what a pipeline runs other pipelines with, its steps and its rules, with those pipelines. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pipeweave.schema import run_input_errors
from pipeweave.spec.child_calls import ChildCall
from pipeweave.spec.child_steps import ChildPipeline, LoopStep
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.parameter_checks import ParameterError
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.spec.references import compile_value
from pipeweave.suggestions import did_you_mean, nearest

_MOST = 100
# What a rule for errors gives a pipeline without params.
_ERROR = "error"
# Codes that are said with a place of their own.
_OF_NAMES = frozenset({"missing", "unknown_input"})


@dataclass(frozen=True, slots=True)
class ChildReference:
    """A place that runs another pipeline.

    Args:
        field: the place of the name of the pipeline.
        params_field: the place of the params.
        step: the id of the step; None for what stands beside the steps.
        params: of its input; None for what the place gives by itself.
        item: the parameter that takes the item of a map; None if there is none.
        is_open: whether the input without params is known only when it runs.
    """

    field: str
    params_field: str
    pipeline: ChildPipeline
    step: str | None
    params: Mapping[str, Any] | None
    item: str | None = None
    is_open: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        return () if self.step is None else (self.step,)

    @property
    def said(self) -> str:
        """What it is, for a message."""
        return self.params_field.rpartition(".")[0] if self.step is None else f"step {self.step!r}"


def child_references(spec: PipelineSpec) -> Iterator[ChildReference]:
    """The places of a pipeline that run other pipelines: steps, those of bodies, and rules."""
    for place, step in spec.all_steps:
        yield from _of_step(place, step)
    for at, rule in enumerate(spec.error_rules):
        yield from _of_call(f"errorHandlers[{at}]", None, rule.call, gives_error=True)
    yield from _of_call("finally", None, spec.finally_call)


def _of_step(place: str, step: StepSpec) -> Iterator[ChildReference]:
    runs, field = step.decides, f"{place}.pipeline"
    if isinstance(runs, LoopStep):
        runs, field = runs.body, f"{place}.loop.pipeline"
    if isinstance(runs, ChildPipeline):
        is_open = step.has_items and step.item_name is None
        params_field = f"{place}.params"
        yield ChildReference(field, params_field, runs, step.id, step.params, step.item_name, is_open)
    on_error = None if step.on_error is None else step.on_error.call
    yield from _of_call(f"{place}.onError", step.id, on_error, gives_error=True)
    yield from _of_call(f"{place}.compensate", step.id, step.compensate)


def _of_call(
    place: str, step: str | None, call: ChildCall | None, *, gives_error: bool = False
) -> Iterator[ChildReference]:
    if call is not None and isinstance(call.runs, ChildPipeline):
        params = {_ERROR: "${error}"} if call.params is None and gives_error else call.params
        yield ChildReference(f"{place}.pipeline", f"{place}.params", call.runs, step, params)


def unknown_pipelines(
    spec: PipelineSpec, known: Collection[ChildPipeline], names: Collection[str]
) -> list[GraphError]:
    """Warn of the places that run a pipeline that is not stored, at most 100 (code UNKNOWN_PIPELINE).

    This is no error: it may be stored before a run comes there, and of two pipelines that run each other, one
    is stored first.

    Args:
        known: of those that it names, those that are stored.
        names: of pipelines that are stored, for suggestions.
    """
    unknown = (each for each in child_references(spec) if each.pipeline not in known)
    return [_unknown(each, names) for each in islice(unknown, _MOST)]


def _unknown(reference: ChildReference, names: Collection[str]) -> GraphError:
    wanted = reference.pipeline
    if wanted.id in names and wanted.version is not None:
        why = f"of which version {wanted.version} is not stored"
    else:
        near = nearest(wanted.id, names)
        why = "which is not stored" + ("" if near is None else f"; did you mean {near!r}?")
    said = f"{reference.field}: {reference.said} runs pipeline {wanted.id!r}, {why}"
    return GraphError("UNKNOWN_PIPELINE", said, reference.steps)


def child_errors(
    spec: PipelineSpec, known: Mapping[ChildPipeline, PipelineSpec | None]
) -> list[ParameterError]:
    """List the params that the input schemas of other pipelines refuse or miss, at most 100. An expression
    has its value when the step runs.

    Args:
        known: of the pipelines that it names, those that are stored; None for a spec that cannot be read.
    """
    errors = (
        error
        for each in child_references(spec)
        if (child := known.get(each.pipeline)) is not None and child.input_schema is not None
        for error in _errors(each, child, child.input_schema)
    )
    return list(islice(errors, _MOST))


def _errors(
    reference: ChildReference, child: PipelineSpec, schema: Mapping[str, Any]
) -> Iterator[ParameterError]:
    fields = {str(each["name"]): each for each in schema["fields"]}
    params, step = reference.params or {}, reference.step
    places = {name: f"{reference.params_field}.{name}" for name in params}
    if reference.item is not None:
        places[reference.item] = f"{reference.params_field.removesuffix('params')}map.as"
    if schema.get("strict"):
        takes = f"it takes {', '.join(fields)}" if fields else "it takes no input"
        for name, place in places.items():
            if name not in fields:
                hint = did_you_mean(name, fields, takes)
                message = f"pipeline {child.id!r} has no input {name!r}; {hint}"
                yield ParameterError(place, message, "unknown_parameter", step)
    if reference.params is None and reference.is_open:
        return
    for name, each in fields.items():
        if each.get("required") and name not in places and name not in child.defaults:
            message = f"pipeline {child.id!r} needs the input {name!r}"
            yield ParameterError(reference.params_field, message, "missing_parameter", step)
    constants = {name: value for name, value in params.items() if compile_value(value).is_constant}
    for fault in run_input_errors(schema, constants):
        if fault.code not in _OF_NAMES:
            field = f"{reference.params_field}.{fault.field}"
            yield ParameterError(field, fault.message, fault.code, step)
