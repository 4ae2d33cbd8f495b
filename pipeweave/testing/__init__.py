"""Run a task or a whole pipeline in this process, for users' unit tests: no server, no database.

Users' tests call it. It imports the base modules, `spec`, `authoring` and `attempt`, and must never import
the server's side. The same code as in production binds parameters, resolves references, decides which steps
run, expands maps and retries failed attempts. Left out are delays between attempts, timeouts, limits and
everything that involves several processes. Steps run one after the other, in the graph's topological order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.attempt import Files, call_to_end, mask_assets, masked_result
from pipeweave.authoring import CallResult, Context, Pipeline, Progress, Task, bind, outcome_of
from pipeweave.errors import InputValidationFailed, InvalidInput, InvalidSpec
from pipeweave.json_values import json_faults
from pipeweave.masking import Masking
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import MAX_JSON_DEPTH
from pipeweave.spec import PipelineSpec, timetable
from pipeweave.testing import local_definitions
from pipeweave.testing.local_attempts import Function
from pipeweave.testing.local_files import LocalFiles, added_assets, given_assets, values_of
from pipeweave.testing.local_reports import SUSPENDED, callback_url
from pipeweave.testing.local_result import RunResult, StepResult
from pipeweave.testing.local_run import LocalRun
from pipeweave.testing.local_secrets import attempt_secrets
from pipeweave.testing.local_signals import checked_signals
from pipeweave.testing.local_tree import LocalTree
from pipeweave.testing.local_waits import APPROVALS, Decision, Outside, signals_of

__all__ = ["RunResult", "StepResult", "due_times", "run_pipeline", "run_task"]


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
    assets: Mapping[str, Any] | None = None,
    uploads: Mapping[str, Path] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> CallResult:
    """Run a task once, as a worker would.

    Args:
        task: the task, or a plain function.
        input: the run's input.
        params: the step's params, references resolved already; None to fill the parameters from the input.
        upstream: output by step id.
        item: the item of a map.
        map_index: the item's 0-based index in the list; 0 by default if `item` is given.
        attempt: number of the attempt, from 1.
        previous_attempts: the attempts that failed before.
        tenant: the tenant of the run.
        on_progress: called when the task reports progress.
        assets: the assets of steps before it by key: values, or paths of files.
        uploads: the files of uploads, by id.
        secrets: what `ctx.secret` gives, by name. Results hold `***` in place of what it gave.

    Returns:
        The task's output, the successors that it chose, the assets that it has added, and what it waits for
        if it suspends itself.

    Raises:
        InvalidParams: the values do not fit the task's parameters.
        InvalidResult: the return value is not JSON.
        Exception: any error that the task raises.
    """
    fn = task.fn if isinstance(task, Task) else task
    run = ids.new_id()
    task_run_id = ids.show(ids.TASK_RUN, ids.task_run_id(run, 1))
    ctx = Context(
        run_id=ids.show(ids.RUN, run),
        task_run_id=task_run_id,
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
        make_callback_url=lambda: callback_url(task_run_id, attempt),
        files=(files := Files(LocalFiles([given_assets(assets)], uploads))),
        secrets=(own := attempt_secrets(secrets)),
    )
    try:
        with Masking(own.masks):
            outcome = masked_result(outcome_of(call_to_end(fn, bind(fn, ctx))), own.masks)
            mask_assets(files, own.masks)
        added = values_of(added_assets(files))
    finally:
        files.close()
    output = orjson.loads(outcome.encoded)
    return CallResult(output, outcome.run_next, outcome.encoded, added, outcome.suspend)


def run_pipeline(
    pipeline: Pipeline[..., Any] | PipelineSpec | Mapping[str, Any],
    input: Any = None,
    *,
    tasks: Mapping[str, Any] | Iterable[Task[..., Any]] | None = None,
    pipelines: Iterable[Pipeline[..., Any] | PipelineSpec | Mapping[str, Any]] = (),
    failure_mode: str | None = None,
    tenant: str = "test",
    uploads: Mapping[str, Path] | None = None,
    secrets: Mapping[str, str] | None = None,
    signals: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    approvals: Mapping[str, Decision | Sequence[Decision]] | None = None,
    callbacks: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> RunResult:
    """Run a pipeline to its end in this process.

    Nothing is waited for: a sleep ends at once, and a signal, an approval or a report that the test does not
    give ends as if its time were over: with its default, or failed with WAIT_TIMEOUT. `waited_ms` of the step
    says how long it would have waited. A pipeline that a step runs is run here, too; `runs` of the step has
    its results. Nobody resumes a run here, so a step with `on_exhausted="pause"` fails.

    Args:
        pipeline: a `@pipeline` function, a spec, or a document.
        input: the run's input.
        tasks: tasks, or plain functions by task id that replace tasks. A function is retried as often as the
            task that it replaces; if it replaces no known task, it runs once. Other tasks are taken from the
            pipeline and from the tasks defined in this process.
        pipelines: pipelines that its steps run, in place of those of the same ids that are defined in this
            process. A step that names a version runs this one, too.
        failure_mode: a failure mode that replaces the pipeline's own; None for the pipeline's own.
        tenant: the tenant of the run.
        uploads: the files of uploads, by id.
        secrets: those of the tenant, by name; without one, what names it fails with SECRET_NOT_FOUND.
        signals: payloads by the names of signals; each ends one wait. Pairs of name and payload, where a name
            comes twice, or where their order matters: the oldest comes first. One whose name no wait could
            take is refused.
        approvals: decisions by the ids of approvals: True or False, or an object of `approved`, `choice`,
            `by`, `comment` and `form`. A list of them: one for each time that the step asks. An approval of a
            pipeline that a step runs is named with that step: `review.approval`; so is one of what takes care
            of the step's error. `compensate:charge.approval` and `finally.approval` follow the last step.
        callbacks: what other systems report of calls that suspend themselves, by the ids of their steps, as
            they would send it: `{"status": "completed" | "failed", "result": …, "error": …}`, or any other
            JSON, which is the result; of a poll, its last answer. A list of reports: one for each call, that
            of another attempt too, or of another item of a map. Steps inside of others are named as
            approvals are.
        now: when the run begins, an aware datetime; the present by default. Waits move it on.

    Raises:
        InvalidSpec: a pipeline is invalid, or uses a task or a pipeline that is not defined.
        InvalidTask: values cannot be checked against a type hint of a task.
        InvalidInput: the input or a report is not JSON, or `approvals` or `callbacks` answers what the
            pipeline does not ask.
        InputValidationFailed: the input does not fit the pipeline's signature, or a form its approval.
    """
    definitions = local_definitions.find(pipeline, tasks, pipelines)
    spec = definitions.root
    signals = checked_signals(definitions, signals)
    checked = _json(input, "input")
    _check_input(spec, checked)
    decisions, reports = APPROVALS.answers(definitions, approvals), SUSPENDED.answers(definitions, callbacks)
    outside = Outside(signals_of(signals), decisions, reports)
    tree = LocalTree(definitions, tenant=tenant, uploads=uploads, outside=outside, secrets=secrets)
    run = LocalRun(
        spec,
        spec.input_with_defaults(checked),
        tree,
        mode=failure_mode or spec.failure_mode,
        now=now or datetime.now(UTC),
    )
    return run.to_end()


def due_times(
    pipeline: Pipeline[..., Any] | PipelineSpec | Mapping[str, Any], after: datetime, count: int = 5
) -> list[datetime]:
    """The first times, in UTC, at which the schedule that a pipeline declares is due.

    Args:
        pipeline: a `@pipeline` function, a spec, or a document.
        after: an aware datetime; intervals are counted from it, unless they have a start.
        count: how many times at most.

    Raises:
        InvalidSpec: the pipeline is invalid, or declares no schedule.
    """
    spec = local_definitions.spec_of(pipeline)
    if spec.schedule is None:
        raise InvalidSpec(f"pipeline {spec.id!r} declares no schedule", hint="give it one: schedule=…")
    return timetable.first_times(spec.schedule.times(after), after, count)


def _check_input(spec: PipelineSpec, value: Any) -> None:
    errors = run_input_errors(spec.input_schema, value)
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        first = (
            f"input.{errors[0].field}: {errors[0].message}"
            if errors[0].field
            else f"input: {errors[0].message}"
        )
        raise InputValidationFailed(f"pipeline {spec.id!r}: {first}{more}", errors=errors)


def _json(value: Any, name: str) -> Any:
    faults = json_faults(value, name, max_depth=MAX_JSON_DEPTH)
    if faults:
        raise InvalidInput(f"{faults[0].field} {faults[0].message}", errors=faults)
    return orjson.loads(orjson.dumps(value))
