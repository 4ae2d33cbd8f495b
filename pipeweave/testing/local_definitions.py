"""Find the pipelines and tasks that a run in this process uses, also in the pipelines that its steps run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import isfunction
from typing import Any

from pipeweave.authoring import Pipeline, Task, TaskSpec, check_hints, registered_pipeline, registered_tasks
from pipeweave.errors import InvalidSpec
from pipeweave.spec import (
    Body,
    ChildCall,
    ChildPipeline,
    LoopStep,
    PipelineSpec,
    StepSpec,
    body_of,
    parse_spec,
    validate_graph,
)
from pipeweave.spec.error_rules import named, names_of, place_of
from pipeweave.testing.local_attempts import Function

# A pipeline as a test may give it.
Written = Pipeline[..., Any] | PipelineSpec | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a run uses.

    Args:
        root: the pipeline of the run.
        pipelines: the specs of all pipelines by id, that of the run among them.
        functions: the function to call, by task id.
        options: the options of tasks, by task id. A function without options gets one attempt.
    """

    root: PipelineSpec
    pipelines: Mapping[str, PipelineSpec]
    functions: Mapping[str, Function]
    options: Mapping[str, TaskSpec]

    def within(self, spec: PipelineSpec) -> Iterator[tuple[str, PipelineSpec]]:
        """What runs inside of a run of a pipeline, each behind the path that leads to it: a step, also for
        what takes care of its error, `compensate:<step>`, or `finally`.
        """
        for step in spec.steps:
            called = called_by(step)
            if step.own_body is not None:
                yield step.id, spec.bodies[step.own_body[0]]
            elif called is not None:
                yield step.id, self.pipelines[called]
            for name in names_of(step, spec.error_rules):
                call = named(step, spec.error_rules, name).call
                yield step.id, self._run_by(spec, call, place_of(step, name))
            if step.compensate is not None:
                yield f"compensate:{step.id}", self._run_by(spec, step.compensate, f"{step.id}.compensate")
        if spec.finally_call is not None:
            yield "finally", self._run_by(spec, spec.finally_call, "finally")

    def _run_by(self, spec: PipelineSpec, call: ChildCall, place: str) -> PipelineSpec:
        return spec.bodies[place] if isinstance(call.runs, Body) else self.pipelines[call.runs.id]


def called_by(step: StepSpec) -> str | None:
    """The id of the pipeline that a step runs; None if it runs none."""
    decides = step.decides
    inner = body_of(decides) if isinstance(decides, ChildPipeline | LoopStep) else None
    return inner.id if isinstance(inner, ChildPipeline) else None


def spec_of(pipeline: Written) -> PipelineSpec:
    """The spec of a pipeline. Raises InvalidSpec."""
    if isinstance(pipeline, Pipeline):
        return pipeline.spec
    if isinstance(pipeline, PipelineSpec):
        faults = validate_graph(pipeline)
        if faults:
            raise InvalidSpec(faults[0].message)
        return pipeline
    if isinstance(pipeline, Task):
        raise InvalidSpec(
            f"run_pipeline runs a pipeline, and {pipeline.id!r} is a task", hint="run a task with run_task"
        )
    return parse_spec(pipeline)


def find(
    pipeline: Written,
    tasks: Mapping[str, Any] | Iterable[Task[..., Any]] | None,
    pipelines: Iterable[Written],
) -> Definitions:
    """What a run of a pipeline uses.

    Args:
        tasks, pipelines: those that replace others; see `run_pipeline`.

    Raises:
        InvalidSpec: a pipeline is invalid, or something is not defined.
        InvalidTask: values cannot be checked against a type hint of a task.
    """
    root = spec_of(pipeline)
    specs, known = {root.id: root}, dict[str, Any](registered_tasks())
    for each in _inside(pipeline, root, pipelines):
        specs[each.id] = spec_of(each) if isinstance(each, Pipeline) else each
        known |= each.tasks if isinstance(each, Pipeline) else {}
    known |= pipeline.tasks if isinstance(pipeline, Pipeline) else {}
    overrides = tasks if isinstance(tasks, Mapping) else {task.id: task for task in tasks or ()}
    functions = {
        id: each.fn if isinstance(each, Task) else each for id, each in {**known, **overrides}.items()
    }
    for spec in specs.values():
        _check_tasks(spec, functions)
    # The options of a task also apply to a plain function that replaces it.
    options = {
        id: each.spec for all in (known, overrides) for id, each in all.items() if isinstance(each, Task)
    }
    return Definitions(root, specs, functions, options)


def _inside(
    pipeline: Written, root: PipelineSpec, pipelines: Iterable[Written]
) -> Iterator[Pipeline[..., Any] | PipelineSpec]:
    """The pipelines that a pipeline runs, that those run, and so on, each once."""
    specs = [each if isinstance(each, Pipeline) else spec_of(each) for each in pipelines]
    supplied = {(each.spec if isinstance(each, Pipeline) else each).id: each for each in specs}
    callers: list[Pipeline[..., Any] | PipelineSpec] = [pipeline if isinstance(pipeline, Pipeline) else root]
    seen = {root.id}
    while callers:
        caller = callers.pop()
        called = caller.pipelines if isinstance(caller, Pipeline) else {}
        for where, id in _called_in(caller.spec if isinstance(caller, Pipeline) else caller):
            if id in seen:
                continue
            seen.add(id)
            inner = supplied.get(id) or called.get(id) or registered_pipeline(id)
            if inner is None:
                raise InvalidSpec(
                    f"{where} runs pipeline {id!r}, which is not defined",
                    hint="import the module that defines it, or give it: run_pipeline(…, pipelines=[…])",
                )
            callers.append(inner)
            yield inner


def _called_in(spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """The ids of the pipelines that a pipeline runs, each behind what runs it."""
    calls = [("finally", spec.finally_call), *(("errorHandlers", each.call) for each in spec.error_rules)]
    for _, step in spec.all_steps:
        where, id = f"step {step.id!r}", called_by(step)
        if id is not None:
            yield where, id
        calls += [(where, step.compensate), (where, None if step.on_error is None else step.on_error.call)]
    for where, call in calls:
        if call is not None and isinstance(call.runs, ChildPipeline):
            yield where, call.runs.id


def _check_tasks(spec: PipelineSpec, functions: Mapping[str, Function]) -> None:
    called = spec.tasks
    if unknown := sorted(called - functions.keys()):
        shown = ", ".join(unknown[:20])
        raise InvalidSpec(f"pipeline {spec.id!r} uses tasks that are not defined: {shown}")
    check_hints({id: functions[id] for id in called if isfunction(functions[id])})
