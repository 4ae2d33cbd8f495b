"""Run one pipeline in this process, step by step; `pipeweave.testing` is built on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.attempt import Files, call_to_end
from pipeweave.authoring import Context, Outcome, TaskSpec, bind, classify_error, encode, key_of, outcome_of
from pipeweave.errors import MapSourceInvalid, PipeWeaveError, TaskError
from pipeweave.json_conversion import details_of
from pipeweave.safe_text import safe_text
from pipeweave.size_limits import MAX_ITEM_BYTES, MAX_MAP_ITEMS
from pipeweave.spec import WITH_OUTPUT, Graph, PipelineSpec, StepSpec, output_template, run_output
from pipeweave.spec.references import json_type, resolve
from pipeweave.spec.rules import (
    FAIL_FAST,
    FAILED,
    PARTIAL_MERGE,
    Decision,
    Predecessor,
    decide_step,
    final_run_status,
    follows_failure,
    select_next,
)
from pipeweave.testing.local_files import Kept, LocalFiles, added_assets, values_of
from pipeweave.testing.local_result import RunResult, StepResult

Function = Callable[..., Any]
Called = tuple[Outcome, dict[str, Kept]]


class LocalRun:
    """One run in this process; its steps run one after the other, in topological order.

    Args:
        spec: the pipeline.
        input: the run's input.
        functions: the function to call, by task id.
        options: the options of tasks, by task id. A function without options gets one attempt.
        mode: the run's failure mode.
        tenant: the tenant of the run.
        uploads: the files of uploads, by id.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        input: Any,
        functions: Mapping[str, Function],
        options: Mapping[str, TaskSpec],
        *,
        mode: str,
        tenant: str,
        uploads: Mapping[str, Path] | None = None,
    ) -> None:
        self.spec = spec
        self.graph = Graph(spec)
        self.input = input
        self.functions = functions
        self.options = options
        self.mode = mode
        self.tenant = tenant
        self.uploads = uploads
        self.id = ids.new_id()
        self.count = 0
        self.results: dict[str, StepResult] = {}
        # Outcomes by task and idempotency key; a later call with the same key reuses the outcome.
        self.outcomes: dict[tuple[str, str], Called] = {}
        # The assets of completed steps.
        self.assets: dict[str, dict[str, Kept]] = {}

    def to_end(self) -> RunResult:
        for step_id in self.graph.order:
            if self.mode == FAIL_FAST and any(each.status in FAILED for each in self.results.values()):
                self.results[step_id] = StepResult("cancelled")
            else:
                self.results[step_id] = self.decide(self.spec.by_id[step_id])
        status = final_run_status(self.mode, (each.status for each in self.results.values()))
        return RunResult(status, self.results, self.output() if status in WITH_OUTPUT else None)

    def output(self) -> Any:
        completed = {id: each.output for id, each in self.results.items() if each.status == "completed"}
        template = output_template(self.spec, self.graph.ends)
        return run_output(template, input=self.input, steps=completed)

    def decide(self, step: StepSpec) -> StepResult:
        before = {id: self.predecessor(id) for id in self.graph.predecessors[step.id]}
        if decide_step(self.mode, before, step.id) is Decision.SKIP:
            return StepResult("skipped", follows_failure=follows_failure(before.values()))
        return self.mapped(step) if step.has_items else self.once(step)

    def predecessor(self, id: str) -> Predecessor:
        result = self.results[id]
        return Predecessor(result.status, result.run_next, result.follows_failure)

    def upstream(self, step: StepSpec) -> dict[str, Any]:
        before = self.graph.ancestors(step.id)
        return {
            id: each.output
            for id, each in self.results.items()
            if id in before and each.status == "completed"
        }

    def once(self, step: StepSpec, item: Any = None, index: int | None = None) -> StepResult:
        """Run a step, or one item of a map, and retry it as the task's options say."""
        self.count += 1
        options = self.options.get(step.task)
        failed: list[Mapping[str, Any]] = []
        delays: list[int] = []
        while True:
            result = self.attempt(step, item, index, tuple(failed))
            result.attempts = len(failed) + 1
            result.previous_attempts, result.delays_ms = failed, delays
            if result.error is None or options is None or not may_retry(options, result):
                return result
            delays.append(options.retry_policy.delay_ms(result.attempts, 0))
            failed = [*failed, previous_attempt(result)]

    def attempt(
        self, step: StepSpec, item: Any, index: int | None, failed: Sequence[Mapping[str, Any]]
    ) -> StepResult:
        upstream = self.upstream(step)
        fn = self.functions[step.task]
        try:
            params = None
            if step.params is not None:
                params = resolve(step.params, input=self.input, steps=upstream, item=item, map_index=index)
            ctx = self.context(step, params, upstream, item, index, failed)
            outcome, assets = self.call(step.task, fn, ctx, self.files(step))
            chosen = select_next(
                outcome.run_next, self.graph.successors[step.id], step_id=step.id, is_item=index is not None
            )
        except Exception as error:
            return StepResult("failed", error=error)
        self.assets.setdefault(step.id, {}).update(assets)
        output = orjson.loads(outcome.encoded)
        return StepResult("completed", output, run_next=chosen, assets=values_of(assets))

    def call(self, task: str, fn: Function, ctx: Context, files: Files) -> Called:
        """Call a function, or reuse the outcome of an earlier call with the same idempotency key."""
        ctx.files = files
        arguments = bind(fn, ctx)
        options = self.options.get(task)
        if options is None or options.idempotency_key is None:
            return called(fn, arguments, files)
        name = task, key_of(options.idempotency_key, fn, ctx)
        if name not in self.outcomes:
            self.outcomes[name] = called(fn, arguments, files)
        return self.outcomes[name]

    def files(self, step: StepSpec) -> Files:
        """The files of an attempt of a step: assets of direct predecessors come first."""
        direct = self.graph.predecessors[step.id]
        before = self.graph.ancestors(step.id)
        known = [id for id in reversed(self.assets) if id in before]
        nearest = sorted(known, key=lambda id: id not in direct)
        return Files(LocalFiles([self.assets[id] for id in nearest], self.uploads))

    def context(
        self,
        step: StepSpec,
        params: Any,
        upstream: Any,
        item: Any,
        index: int | None,
        failed: Sequence[Mapping[str, Any]],
    ) -> Context:
        return Context(
            run_id=ids.show(ids.RUN, self.id),
            task_run_id=ids.show(ids.TASK_RUN, ids.task_run_id(self.id, self.count)),
            task_id=step.task,
            pipeline_id=self.spec.id,
            step_id=step.id,
            attempt=len(failed) + 1,
            input=self.input if params is None else params,
            params=params,
            upstream=upstream,
            previous_attempts=failed,
            item=item,
            map_index=index,
            map_name=step.item_name,
            tenant=self.tenant,
        )

    def mapped(self, step: StepSpec) -> StepResult:
        try:
            items = self.items(step)
        except PipeWeaveError as error:
            return StepResult("failed", error=error)
        results: list[StepResult] = []
        for index, item in enumerate(items):
            results.append(self.once(step, item, index))
            if results[-1].error is not None and self.mode == FAIL_FAST:
                break
        failed = [each for each in results if each.status == "failed"]
        if failed and (self.mode != PARTIAL_MERGE or len(failed) == len(items)):
            first = results.index(failed[0])
            message = f"{len(failed)} of {len(items)} items failed, the first at index {first}"
            failure = TaskError(message, code="MAP_ITEMS_FAILED", retryable=False)
            failure.__cause__ = failed[0].error
            return StepResult("failed", error=failure, items=results)
        assets = {key: value for each in results for key, value in each.assets.items()}
        return StepResult("completed", [each.output for each in results], items=results, assets=assets)

    def items(self, step: StepSpec) -> list[Any]:
        source = resolve(step.over, input=self.input, steps=self.upstream(step))
        if source is None:
            return []
        if not isinstance(source, list):
            raise MapSourceInvalid(f"a map needs a list, not {json_type(source)}")
        if len(source) > MAX_MAP_ITEMS:
            raise MapSourceInvalid(f"the list has {len(source)} items, a map takes at most {MAX_MAP_ITEMS}")
        for index, item in enumerate(source):
            size = len(encode(item)[1])
            if size > MAX_ITEM_BYTES:
                raise MapSourceInvalid(f"item {index} has {size} bytes, an item has at most {MAX_ITEM_BYTES}")
        return source


def called(fn: Function, arguments: Mapping[str, Any], files: Files) -> Called:
    """Call a function: its outcome, and the assets that it has added."""
    try:
        return outcome_of(call_to_end(fn, arguments)), added_assets(files)
    finally:
        files.close()


def may_retry(options: TaskSpec, result: StepResult) -> bool:
    """True if another attempt follows the failed attempt."""
    assert result.error is not None
    code, is_retryable = classify_error(result.error)
    has_more = result.attempts <= options.retries
    return has_more and options.retry_policy.may_retry(code, is_retryable=is_retryable)


def previous_attempt(result: StepResult) -> Mapping[str, Any]:
    """Describe a failed attempt for the context of later attempts."""
    assert result.error is not None
    return {
        "attempt": result.attempts,
        "status": result.status,
        "error": safe_text(str, result.error) or type(result.error).__name__,
        "errorCode": classify_error(result.error)[0],
        "details": details_of(getattr(result.error, "details", None)),
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
