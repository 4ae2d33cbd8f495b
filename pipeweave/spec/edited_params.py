"""Check params that replace those of a step in one run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.field_errors import MOST_ERRORS, FieldErrors
from pipeweave.json_values import json_faults
from pipeweave.schema import task_input_errors
from pipeweave.size_limits import MAX_EDITED_PARAMS
from pipeweave.spec.child_checks import child_errors
from pipeweave.spec.child_steps import ChildPipeline, LoopStep
from pipeweave.spec.document_expressions import ITEM_ROOTS, LOOP_ROOTS, ExpressionReader, Written, step_of
from pipeweave.spec.engine_steps import CHILD_TASKS
from pipeweave.spec.expressions import Path
from pipeweave.spec.parameter_checks import Parameters, parameter_errors
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.spec.references import compile_value

_FIELD = "params"


def takes_params(step: StepSpec) -> bool:
    """Whether a step has params: it runs a task or a pipeline. The steps of a body take none."""
    has_body = any(step.bodies)
    return step.has_task or (step.task in CHILD_TASKS and not has_body)


def edited_params_errors(
    spec: PipelineSpec,
    step: StepSpec,
    *,
    before: Collection[str],
    parameters: Parameters | None,
    input_schema: Mapping[str, Any] | None,
    children: Mapping[ChildPipeline, PipelineSpec | None],
) -> list[FieldError]:
    """List the mistakes in the params of a step that are not those of its version, at most 100.

    They may hold expressions, as the params of a document may: over the run's input and the steps before.
    What is constant is checked against the input schema of the task.

    Args:
        spec: the pipeline.
        step: the step, with the new params.
        before: the ids of the steps that precede it, however far.
        parameters: of its task; None where it runs no task, or they are not known.
        input_schema: that its task declares; None for none.
        children: the pipelines that it runs, as far as they are stored.
    """
    mistakes = FieldErrors()
    mistakes.errors += json_faults(step.params, _FIELD, budget=MAX_EDITED_PARAMS)
    if mistakes.errors:
        return mistakes.errors[:MOST_ERRORS]
    expressions = ExpressionReader(mistakes)
    expressions.value(step.params, _FIELD, has_item=step.has_items)
    if isinstance(step.decides, LoopStep):
        expressions.give_loop(0)
    if step.decides is None:
        expressions.allow_secrets(0)
    expressions.check(spec.variables, spec.input_schema)
    for written in expressions.written:
        for path in written.expression.references:
            if (problem := _out_of_reach(path, written, before)) is not None:
                mistakes.wrong(written.field, problem, "invalid_reference")
    mistakes.errors += _of_names(spec, step, parameters, children)
    if not mistakes.errors:
        mistakes.errors += _of_constants(step, parameters, input_schema)
    return mistakes.errors[:MOST_ERRORS]


def _out_of_reach(path: Path, written: Written, before: Collection[str]) -> str | None:
    """Why a path has no value at the step; None if it has one."""
    shown = f"${{{path.text}}}"
    if path.root in ITEM_ROOTS and not written.has_item:
        return f"{shown} has no value in a step without `map`"
    if path.root in LOOP_ROOTS and not written.has_loop:
        return f"{shown} has no value here: only in a loop"
    step = step_of(path)
    if step is None:
        return f"{shown} names no step" if path.root in ("status", "errors") else None
    return None if step in before else f"{shown}: {step[:200]!r} is not a step before this one"


def _of_names(
    spec: PipelineSpec,
    step: StepSpec,
    parameters: Parameters | None,
    children: Mapping[ChildPipeline, PipelineSpec | None],
) -> Iterator[FieldError]:
    """The params that the task or the pipeline does not take, and those that it misses."""
    if step.item_name is not None and step.item_name in (step.params or {}):
        field = f"{_FIELD}.{step.item_name}"
        yield FieldError(field, "is the parameter that takes the item of the map", "duplicate")
    # The rules of the step, and those beside the steps, are as they were.
    by_itself = replace(step, on_error=None, compensate=None)
    alone = replace(spec, steps=(by_itself,), error_rules=(), finally_call=None)
    wrong = parameter_errors(alone, {step.task: parameters}) + child_errors(alone, children)
    for each in wrong:
        yield FieldError(each.field.removeprefix("steps[0]."), each.message, each.code)


def _of_constants(
    step: StepSpec, parameters: Parameters | None, input_schema: Mapping[str, Any] | None
) -> Iterator[FieldError]:
    """The constant params that the task would refuse. An expression has its value when the step runs."""
    written = step.params or {}
    constants = {name: value for name, value in written.items() if compile_value(value).is_constant}
    for each in task_input_errors(input_schema, parameters, constants):
        if any(each.field == name or each.field.startswith((f"{name}.", f"{name}[")) for name in constants):
            yield FieldError(f"{_FIELD}.{each.field}", each.message, each.code, each.expected)
