"""Run a task or a whole pipeline in this process, for users' own unit tests: no server, no database.

The same code decides as in production: parameters are bound, results read, steps run or skipped, references
resolved, maps expanded and failed attempts tried again by `calling`, `rules`, `references`, `graph` and
`retry`. What is left out: waiting between attempts, timeouts, limits and everything that is about several
processes. Steps run one after the other, in the graph's topological order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.authoring import (
    Context,
    Outcome,
    Pipeline,
    Progress,
    Task,
    TaskSpec,
    bind,
    outcome_of,
    registered_tasks,
)
from pipeweave.errors import InvalidInput, InvalidSpec
from pipeweave.json_values import json_faults
from pipeweave.spec import PipelineSpec, parse_spec, validate_graph
from pipeweave.testing.local_result import RunResult, StepResult
from pipeweave.testing.local_run import Function, LocalRun

__all__ = ["RunResult", "StepResult", "run_pipeline", "run_task"]


def run_task(
    task: Task[..., Any] | Function,
    input: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    upstream: Mapping[str, Any] | None = None,
    item: Any = None,
    map_index: int | None = None,
    attempt: int = 1,
    previous_attempts: Sequence[Mapping[str, Any]] = (),
    tenant: str = "test",
    on_progress: Progress | None = None,
) -> Outcome:
    """Run a task once, as a worker would.

    Args:
        task: the task, or a plain function.
        input: the run's input.
        params: the step's params, references resolved already; None to fill the parameters from the input.
        upstream: output by step id.
        item: the item of a map; `map_index` is 0 when only this is given.
        map_index: the item's place.
        attempt: 1 for the first.
        previous_attempts: what failed before.
        tenant: whose run it is.
        on_progress: receives what the task reports.

    Returns:
        Its output and the successors it chose.

    Raises:
        InvalidParams: the values do not fit the task's parameters.
        InvalidResult: what it returned is not JSON.
        Exception: whatever the task raises.
    """
    fn = task.fn if isinstance(task, Task) else task
    ctx = Context(
        run_id=ids.show(ids.RUN, run := ids.new_id()),
        task_run_id=ids.show(ids.TASK_RUN, ids.task_run_id(run, 1)),
        task_id=task.id if isinstance(task, Task) else fn.__name__,
        attempt=attempt,
        input=_json(input, "input") if params is None else params,
        params=params,
        upstream=upstream or {},
        previous_attempts=previous_attempts,
        item=item,
        map_index=0 if item is not None and map_index is None else map_index,
        code_hash=task.spec.code_hash if isinstance(task, Task) else "",
        tenant=tenant,
        on_progress=on_progress,
    )
    return outcome_of(fn(**bind(fn, ctx)))


def run_pipeline(
    pipeline: Pipeline[..., Any] | PipelineSpec | Mapping[str, Any],
    input: Any = None,
    *,
    tasks: Mapping[str, Any] | Iterable[Task[..., Any]] | None = None,
    failure_mode: str | None = None,
    tenant: str = "test",
) -> RunResult:
    """Run a pipeline to its end, in this process.

    Args:
        pipeline: a `@pipeline` function, a spec, or a document.
        input: the run's input.
        tasks: the tasks, or what stands in for some of them: plain functions by task id, which are tried as
            often as the tasks they stand in for, or once. What is not given is taken from the pipeline and
            from the tasks defined in this process.
        failure_mode: other than the pipeline's own.
        tenant: whose run it is.

    Raises:
        InvalidSpec: the pipeline is wrong, or uses a task that is not there.
        InvalidInput: the input is not JSON.
    """
    spec = _spec_of(pipeline)
    functions, options = _functions(pipeline, tasks)
    unknown = sorted({step.task for step in spec.steps} - functions.keys())
    if unknown:
        raise InvalidSpec(f"pipeline {spec.id!r} uses tasks that are not there: {', '.join(unknown[:20])}")
    given = spec.input_with_defaults(_json(input, "input"))
    mode = failure_mode or spec.failure_mode
    return LocalRun(spec, given, functions, options, mode=mode, tenant=tenant).to_end()


def _spec_of(pipeline: Pipeline[..., Any] | PipelineSpec | Mapping[str, Any]) -> PipelineSpec:
    if isinstance(pipeline, Pipeline):
        return pipeline.spec
    if isinstance(pipeline, PipelineSpec):
        found = validate_graph(pipeline)
        if found:
            raise InvalidSpec(found[0].message)
        return pipeline
    return parse_spec(pipeline)


def _functions(pipeline: Any, tasks: Any) -> tuple[dict[str, Function], dict[str, TaskSpec]]:
    """What runs for each task id, and the options of those that are tasks."""
    known: dict[str, Any] = {**registered_tasks()}
    if isinstance(pipeline, Pipeline):
        known |= pipeline.tasks
    given = tasks if isinstance(tasks, Mapping) else {task.id: task for task in tasks or ()}
    both = {**known, **given}
    functions = {id: each.fn if isinstance(each, Task) else each for id, each in both.items()}
    # Of a task that a plain function stands in for, the options still hold.
    options = {id: each.spec for all in (known, given) for id, each in all.items() if isinstance(each, Task)}
    return functions, options


def _json(value: Any, name: str) -> Any:
    faults = json_faults(value, name)
    if faults:
        raise InvalidInput(f"{faults[0].field} {faults[0].message}", errors=faults)
    return orjson.loads(orjson.dumps(value))
