"""Derive the input schemas of pipelines from their signatures, and those of tasks from their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeweave.authoring.call_targets import CallableTask
from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.context_uses import may_read_input
from pipeweave.authoring.graph_builder import GraphBuilder
from pipeweave.authoring.hint_fields import field_of
from pipeweave.authoring.signatures import FunctionSignature, hints_of
from pipeweave.errors import InvalidTask

_EMPTY = inspect.Parameter.empty


def pipeline_schema(fn: Callable[..., Any], builder: GraphBuilder) -> dict[str, Any] | None:
    """The input schema of a pipeline: the parameters of its function, and those of tasks that the run's input
    fills; None if the pipeline has neither.

    The schema is strict, so that other names are mistakes, unless a task may read any name: one that is
    called without arguments and has `**kwargs`, a parameter `input`, or a Context whose input it may read.

    Args:
        fn: the pipeline's function.
        builder: the steps of the pipeline and their tasks.
    """
    fields = {each["name"]: each for each in _parameters(fn)}
    is_open = False
    for step in builder.steps:
        if "task" not in step or "params" in step:
            continue
        task = builder.tasks[step["task"]]
        plan = call_plan(task.fn)
        is_open = is_open or _reads_any_name(task, plan)
        for each in _filled_by_input(step, plan, is_entry=builder.is_certain_entry(step)):
            fields.setdefault(each["name"], each)
    return {"fields": list(fields.values()), "strict": not is_open} if fields else None


def task_parameters(fn: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a task's function as an input schema; it is strict unless there are `**kwargs`."""
    plan = call_plan(fn)
    fields = [field_of(each.name, each.hint, is_required=each.is_required) for each in plan.parameters]
    return {"fields": fields, "strict": not plan.takes_any}


def _parameters(fn: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    try:
        hints: Mapping[str, Any] = hints_of(fn)
    except InvalidTask:  # nothing but the drawing reads these hints
        hints = {}
    for name, each in inspect.signature(fn).parameters.items():
        hint = hints.get(name, Any)
        yield field_of(name, hint, is_required=each.default is _EMPTY, is_nullable=each.default is None)


def _reads_any_name(task: CallableTask, plan: FunctionSignature) -> bool:
    by_context = plan.context is not None and may_read_input(task.fn, plan.context)
    return plan.takes_any or by_context or "input" in plan.names


def _filled_by_input(
    step: Mapping[str, Any], plan: FunctionSignature, *, is_entry: bool
) -> Iterator[dict[str, Any]]:
    """The parameters of a step without params. Only an entry step is certain to run, and to need them."""
    names = [each.name for each in plan.parameters]
    item = None if "map" not in step else step["map"]["as"] or next(iter(names), None)
    for each in plan.parameters:
        if each.name not in (item, "input"):
            hint = each.hint if is_entry else Any
            yield field_of(each.name, hint, is_required=is_entry and each.is_required)
