"""Run one pipeline in this process, step by step; `pipeweave.testing` is built on it.

Waits end at once. A clock of the run's own goes on as if they had not: a step begins when the last of the
steps that it waited for would have ended; calls of tasks take no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import orjson

from pipeweave import error_kinds, ids
from pipeweave.attempt import Files
from pipeweave.authoring import Context, bind, encode, key_of, outcome_of
from pipeweave.authoring.secret_means import SecretMeans
from pipeweave.errors import (
    LimitExceeded,
    MapSourceInvalid,
    PipeWeaveError,
    TaskError,
)
from pipeweave.json_values import own_copy
from pipeweave.masking import Masking, Masks
from pipeweave.size_limits import INLINE_BYTES, MAX_ITEM_BYTES, MAX_MAP_ITEMS
from pipeweave.spec import (
    MAX_DEPTH,
    WITH_OUTPUT,
    Body,
    ChildCall,
    ChildPipeline,
    Choice,
    EngineStep,
    Gather,
    Graph,
    LoopStep,
    PipelineSpec,
    StepSpec,
    Transform,
    WaitStep,
    check_children,
    engine_results,
    error_rules,
    output_template,
    run_output,
)
from pipeweave.spec.engine_results import Refused
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.references import json_type
from pipeweave.spec.rules import (
    FAIL_FAST,
    FAILED,
    FAILS_RUN,
    Decision,
    Predecessor,
    decide_step,
    final_run_status,
    follows_failure,
    is_taken,
    map_completes,
    select_next,
)
from pipeweave.testing.local_attempts import Called, Function, called, may_retry, previous_attempt, retries_of
from pipeweave.testing.local_children import ChildrenOfStep, accepted, input_of
from pipeweave.testing.local_definitions import called_by
from pipeweave.testing.local_endings import LocalEnding, outside_of_branches, parts_of
from pipeweave.testing.local_files import Kept, LocalFiles, values_of
from pipeweave.testing.local_reports import callback_url, end_of_call
from pipeweave.testing.local_result import RunResult, StepResult
from pipeweave.testing.local_scope import seen_error, values_of_run, within
from pipeweave.testing.local_secrets import FillParams, attempt_secrets, for_keys, secret_scope
from pipeweave.testing.local_tree import LocalParent, LocalTree
from pipeweave.testing.local_waits import end_of

MAP_ITEMS_FAILED = "MAP_ITEMS_FAILED"


class LocalRun:
    """One run in this process; its steps run one after the other, in topological order.

    Args:
        spec: the pipeline.
        input: the run's input.
        tree: what it shares with the runs inside of it.
        mode: the run's failure mode.
        now: when the run begins, aware.
        parent: the run that it belongs to; None for the run of a test itself.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        input: Any,
        tree: LocalTree,
        *,
        mode: str,
        now: datetime,
        parent: LocalParent | None = None,
    ) -> None:
        self.spec = spec
        self.graph = Graph(spec)
        self.input = input
        self.tree = tree
        self.functions = tree.definitions.functions
        self.options = tree.definitions.options
        self.mode = mode
        self.began_at = now
        self.parent = parent
        self.id = ids.new_id()
        self.count = 0
        self.results: dict[str, StepResult] = {}
        # As expressions see them.
        self.errors: dict[str, dict[str, Any] | None] = {}
        # When each step would have ended.
        self.ends: dict[str, datetime] = {}
        # The assets of completed steps.
        self.assets: dict[str, dict[str, Kept]] = {}
        gathers = [each.decides for each in spec.steps if isinstance(each.decides, Gather)]
        # Steps of which a failure ends no run by itself: a gather behind them tells of it.
        self.held = frozenset(member for each in gathers for member in each.members)

    def to_end(self) -> RunResult:
        has_failed = False
        for step_id in self.graph.order:
            step = self.spec.by_id[step_id]
            start = self.start_of(step)
            result = StepResult("cancelled") if has_failed else self.decide(step, start)
            if result.error is not None:
                self.take_care(step, result, start)
            result.is_passed_over |= step.continue_on_error and result.status in ("failed", "timeout")
            self.results[step_id] = result
            self.errors[step_id] = seen_error(step_id, result, self.tree.masks)
            self.ends[step_id] = start + timedelta(milliseconds=result.waited_ms)
            has_failed |= self.mode == FAIL_FAST and self.is_failure(step_id)
        status = final_run_status(self.mode, self.statuses())
        ending = self.follow(status)
        waited_ms = (ending.now - self.began_at) // timedelta(milliseconds=1)
        status = "failed" if ending.error is not None and status == "completed" else status
        output = self.output() if status in WITH_OUTPUT else None
        return RunResult(status, self.results, output, self.shown_id, waited_ms, ending.runs, ending.error)

    # --- what follows failed steps and the last step ------------------------------------------------------

    def take_care(self, step: StepSpec, result: StepResult, start: datetime) -> None:
        """Run what the pipeline says of the error of a step. Its success completes the step."""
        error = seen_error(step.id, result, self.tree.masks)
        constants = error_rules.constants_of(self.spec.variables)
        name = error_rules.fitting(step, self.spec.error_rules, constants, error or {})
        if name is None:
            return
        rule = error_rules.named(step, self.spec.error_rules, name)
        now = start + timedelta(milliseconds=result.waited_ms)
        scope = {**self.scope(step), "error": error}
        place = error_rules.place_of(step, name)
        result.handler = self.called(rule.call, place, self.path_of(step.id), scope, {"error": error}, now)
        result.waited_ms += result.handler.waited_ms
        if result.handler.status in WITH_OUTPUT and rule.is_handled:
            result.status, result.output = "completed", result.handler.output
            result.handled_error, result.error = result.error, None
            result.run_next = outside_of_branches(step, self.graph.successors[step.id])

    def follow(self, status: str) -> LocalEnding:
        """Run what follows the last step."""
        end = max(self.ends.values())
        run = {**self.of_run["run"], "outcome": status}
        of_steps = {id: each.output for id, each in self.results.items() if each.status == "completed"}
        own = {**self.of_run, "run": run, "steps": of_steps, **self.outcomes}
        scope = own if self.parent is None else within(self.parent.around, own)
        ending = LocalEnding(end)
        for part, place, call in parts_of(self.spec, status, self.results, self.ends):
            ending.add(part, self.called(call, place, self.path_of(part), scope, None, ending.now))
        return ending

    def called(
        self,
        call: ChildCall,
        place: str,
        path: str,
        scope: Mapping[str, Any],
        usual: Any,
        now: datetime,
    ) -> RunResult:
        """Run what follows a failed step, or the last one.

        Args:
            place: of its body.
            path: of the step that it is for, or the name of what follows the steps.
            scope: the values that its params, or its body, may name.
            usual: the input of a pipeline without params.
        """
        try:
            if isinstance(call.runs, Body):
                return self.child(path, self.spec.bodies[place], self.input, now, scope)
            inner = self.tree.definitions.pipelines[call.runs.id]
            params = usual if call.params is None else engine_results.fill(dict(call.params), scope, now)
            return self.child(path, inner, accepted(inner, params), now, {})
        except PipeWeaveError as error:
            return RunResult("failed", {}, None, ending_error=error)

    @property
    def shown_id(self) -> str:
        return ids.show(ids.RUN, self.id)

    def is_failure(self, step_id: str) -> bool:
        """Whether a step, by itself, lets the run fail."""
        result = self.results[step_id]
        return result.status in FAILED and not result.is_passed_over and step_id not in self.held

    def statuses(self) -> Iterator[str]:
        """The statuses that the status of the run is made of, those of items among them."""
        for step_id, result in self.results.items():
            step = self.spec.by_id[step_id]
            is_excused = step_id in self.held or step.continue_on_error
            # Under a rule of its own, a map says by itself what the failures of its items mean.
            counts_items = step.item_failure == FAILS_RUN and result.handled_error is None
            for each in (result, *(result.items if counts_items else ())):
                yield "completed" if is_excused and each.status in FAILED else each.status

    def output(self) -> Any:
        completed = {id: each.output for id, each in self.results.items() if each.status == "completed"}
        template = output_template(self.spec, self.graph.ends)
        return run_output(template, input=self.input, steps=completed)

    def start_of(self, step: StepSpec) -> datetime:
        """When a step begins: after all its predecessors, or after as many as its early join needs."""
        before = self.graph.predecessors[step.id]
        if step.join.at_least is None:
            return max((self.ends[each] for each in before), default=self.began_at)
        taken = sorted(self.ends[each] for each in before if is_taken(self.predecessor(each), step.id))
        enough = taken[: step.join.at_least]
        return enough[-1] if enough else self.began_at

    def decide(self, step: StepSpec, start: datetime) -> StepResult:
        before = {id: self.predecessor(id) for id in self.graph.predecessors[step.id]}
        if decide_step(self.mode, before, step.id, step.join) is Decision.SKIP:
            return StepResult("skipped", follows_failure=follows_failure(before.values()))
        try:
            if not self.is_wanted(step, start):
                return StepResult("skipped", is_passed_over=True)
            if step.decides is not None and not step.has_items:
                return self.decided(step, step.decides, start)
        except PipeWeaveError as error:
            return StepResult("failed", error=error)
        return self.mapped(step) if step.has_items else self.once(step)

    def is_wanted(self, step: StepSpec, now: datetime) -> bool:
        """Whether the step's condition is true."""
        if step.condition is None:
            return True
        return parse_condition(step.condition).is_true(self.scope(step), now=now)

    def decided(self, step: StepSpec, decides: EngineStep, now: datetime) -> StepResult:
        """The result of a step that the engine decides."""
        match decides:
            case Choice() | Transform() | Gather():
                return self.made(step, decides, now)
            case ChildPipeline() | LoopStep() | Body():
                return self.inside(step, None, None)
            case _:
                return self.waited(step, decides, now)

    def made(self, step: StepSpec, decides: Choice | Transform | Gather, now: datetime) -> StepResult:
        made = engine_results.result_of(
            decides,
            self.scope(step),
            predecessors=step.needs,
            successors=self.graph.successors[step.id],
            is_tolerated=lambda each: self.spec.by_id[each].continue_on_error,
            now=now,
        )
        if isinstance(decides, Gather) and not isinstance(made, Refused):
            before = [self.predecessor(each) for each in step.needs]
            if engine_results.is_after_failure(self.mode, before):
                return StepResult("skipped", follows_failure=True)
        if not isinstance(made, Refused) and (size := len(encode(made.output)[1])) > INLINE_BYTES:
            made = engine_results.too_large(size, decides)
        if isinstance(made, Refused):
            error = TaskError(made.message, code=made.code, retryable=False, details=made.details)
            return StepResult("failed", error=error)
        return StepResult("completed", made.output, run_next=made.selected_next)

    def waited(self, step: StepSpec, wait: WaitStep, start: datetime) -> StepResult:
        scope = self.scope(step)
        ended = end_of(
            self.path_of(step.id),
            wait,
            lambda each: engine_results.fill(each, scope, start),
            start,
            self.tree.outside,
        )
        waited_ms = (ended.at - start) // timedelta(milliseconds=1)
        return StepResult(ended.status, ended.output, ended.error, waited_ms=waited_ms)

    def inside(self, step: StepSpec, item: Any, index: int | None) -> StepResult:
        """The result of a step, or of one item of its map, that runs a pipeline or a body."""
        scope = {**self.scope(step), **({} if index is None else {"item": item, "mapIndex": index})}

        def begin(of_round: Mapping[str, Any], now: datetime) -> RunResult:
            if step.own_body is not None:
                body = self.spec.bodies[step.own_body[0]]
                return self.child(self.path_of(step.id), body, self.input, now, {**scope, **of_round})
            inner = self.tree.definitions.pipelines[str(called_by(step))]
            params = input_of(step, {**scope, **of_round}, item, now)
            return self.child(self.path_of(step.id), inner, accepted(inner, params), now, {})

        return ChildrenOfStep(step, scope, self.start_of(step), begin).to_end()

    def child(
        self, path: str, inner: PipelineSpec, value: Any, now: datetime, around: Mapping[str, Any]
    ) -> RunResult:
        """Run what belongs to this run.

        Args:
            path: of the step that it is for, or the name of what follows the steps.
            around: what a body sees of the steps around it.

        Raises:
            LimitExceeded: there are too many runs above it.
        """
        depth = 0 if self.parent is None else self.parent.depth
        if depth >= MAX_DEPTH:
            raise LimitExceeded(
                f"{depth + 1} runs would be inside of each other; at most {MAX_DEPTH} may be",
                hint="let a pipeline not run itself without end",
            )
        parent = LocalParent(self.shown_id, depth + 1, f"{path}.", around)
        return LocalRun(inner, value, self.tree, mode=inner.failure_mode, now=now, parent=parent).to_end()

    def path_of(self, name: str) -> str:
        """The id of a step, or the name of a part of the ending, behind those that lead to this run."""
        return name if self.parent is None else f"{self.parent.path}{name}"

    def predecessor(self, id: str) -> Predecessor:
        result = self.results[id]
        return Predecessor(result.status, result.run_next, result.follows_failure, result.is_passed_over)

    def scope(self, step: StepSpec) -> dict[str, Any]:
        """The values that the expressions of a step may name, by their roots."""
        own = {**self.of_run, "steps": self.upstream(step), **self.outcomes}
        return own if self.parent is None else within(self.parent.around, own)

    @property
    def outcomes(self) -> dict[str, Any]:
        """The values of `status` and `errors`."""
        status = {step_id: each.status for step_id, each in self.results.items()}
        return {"status": status, "errors": {**self.errors}}

    @cached_property
    def of_run(self) -> Mapping[str, Any]:
        parent = None if self.parent is None else self.parent.run_id
        return values_of_run(self.spec, self.shown_id, self.input, self.began_at, parent)

    def upstream(self, step: StepSpec) -> dict[str, Any]:
        before = self.graph.ancestors(step.id)
        return {
            id: each.output
            for id, each in self.results.items()
            if id in before and each.status == "completed"
        }

    def once(self, step: StepSpec, item: Any = None, index: int | None = None) -> StepResult:
        """Run a step, or one item of a map, and retry it as the step says, or the task's options."""
        self.count += 1
        attempts, policy = retries_of(step, self.options.get(step.task))
        failed: list[Mapping[str, Any]] = []
        delays: list[int] = []
        waited_ms = 0
        while True:
            now = self.start_of(step) + timedelta(milliseconds=waited_ms)
            result = self.attempt(step, item, index, tuple(failed), now)
            waited_ms = result.waited_ms = result.waited_ms + waited_ms
            result.attempts = len(failed) + 1
            result.previous_attempts, result.delays_ms = failed, delays
            if result.error is None or result.attempts >= attempts or not may_retry(policy, result.error):
                return result
            delays.append(policy.delay_ms(result.attempts, 0))
            failed = [*failed, previous_attempt(result)]

    def attempt(
        self,
        step: StepSpec,
        item: Any,
        index: int | None,
        failed: Sequence[Mapping[str, Any]],
        now: datetime,
    ) -> StepResult:
        upstream = self.upstream(step)
        fn = self.functions[step.task]
        waited_ms = 0
        try:
            of_item = {} if index is None else {"item": item, "mapIndex": index}

            def fill(means: SecretMeans) -> Any:
                if step.params is None:
                    return None
                scope = {**self.scope(step), **of_item, **secret_scope(step.params, means)}
                return engine_results.fill(dict(step.params), scope, now)

            secrets = attempt_secrets(self.tree.secrets, self.tree.masks)
            ctx = self.context(step, fill(secrets), upstream, item, index, failed)
            ctx.secrets = secrets
            with Masking(secrets.masks):
                (outcome, assets), key = self.call(step, fn, ctx, self.files(step), fill)
            if outcome.suspend is not None:
                report = self.tree.outside.reports.next(self.path_of(step.id))
                ended = end_of_call(step, outcome.suspend, report, now)
                waited_ms = (ended.at - now) // timedelta(milliseconds=1)
                if ended.error is not None:
                    return StepResult(ended.status, error=ended.error, waited_ms=waited_ms)
                outcome = outcome_of(ended.output)
            if key is not None:
                self.tree.outcomes[key] = outcome, assets
            chosen = select_next(
                outcome.run_next, self.graph.successors[step.id], step_id=step.id, is_item=index is not None
            )
        except Exception as error:
            return StepResult("failed", error=error)
        self.assets.setdefault(step.id, {}).update(assets)
        output, added = orjson.loads(outcome.encoded), values_of(assets)
        return StepResult("completed", output, run_next=chosen, assets=added, waited_ms=waited_ms)

    def call(
        self, step: StepSpec, fn: Function, ctx: Context, files: Files, fill: FillParams
    ) -> tuple[Called, tuple[str, str] | None]:
        """Call a function, or reuse the outcome of an earlier call with the same idempotency key: what came
        of it, and the task with its key.
        """
        ctx.files = files
        arguments = bind(fn, ctx)
        options, key = self.options.get(step.task), None
        if options is not None and options.idempotency_key is not None:
            key = step.task, key_of(options.idempotency_key, fn, for_keys(ctx, fill))
            if key in self.tree.outcomes:
                return self.tree.outcomes[key], key
        masks = Masks() if ctx.secrets is None else ctx.secrets.masks
        return called(fn, arguments, files, masks, takes_pending=step.suspends is not None), key

    def files(self, step: StepSpec) -> Files:
        """The files of an attempt of a step: assets of direct predecessors come first."""
        direct = self.graph.predecessors[step.id]
        before = self.graph.ancestors(step.id)
        known = [id for id in reversed(self.assets) if id in before]
        nearest = sorted(known, key=lambda id: id not in direct)
        return Files(LocalFiles([self.assets[id] for id in nearest], self.tree.uploads))

    def context(
        self,
        step: StepSpec,
        params: Any,
        upstream: Any,
        item: Any,
        index: int | None,
        failed: Sequence[Mapping[str, Any]],
    ) -> Context:
        task_run_id, attempt = ids.show(ids.TASK_RUN, ids.task_run_id(self.id, self.count)), len(failed) + 1
        params = own_copy(params)
        return Context(
            run_id=self.shown_id,
            task_run_id=task_run_id,
            task_id=step.task,
            pipeline_id=self.spec.id,
            step_id=step.id,
            attempt=attempt,
            input=own_copy(self.input) if params is None else params,
            params=params,
            upstream=own_copy(upstream),
            previous_attempts=failed,
            item=own_copy(item),
            map_index=index,
            map_name=step.item_name,
            tenant=self.tree.tenant,
            make_callback_url=lambda: callback_url(task_run_id, attempt),
        )

    def mapped(self, step: StepSpec) -> StepResult:
        try:
            items = self.items(step)
        except PipeWeaveError as error:
            return StepResult("failed", error=error)
        is_excused = step.continue_on_error or step.id in self.held or self.is_taken_care_of(step)
        is_of_run = step.item_failure == FAILS_RUN
        results: list[StepResult] = []
        for index, item in enumerate(items):
            runs_task = step.decides is None
            results.append(self.once(step, item, index) if runs_task else self.inside(step, item, index))
            if results[-1].error is not None and self.mode == FAIL_FAST and not is_excused and is_of_run:
                break
        # As if all items began at once.
        waited_ms = max((each.waited_ms for each in results), default=0)
        failed = [each for each in results if each.status in FAILED]
        if not map_completes(self.mode, step.item_failure, len(failed), len(items)):
            first = results.index(failed[0])
            message = f"{len(failed)} of {len(items)} items failed, the first at index {first}"
            failure = TaskError(message, code=MAP_ITEMS_FAILED, retryable=False)
            failure.__cause__ = failed[0].error
            return StepResult("failed", error=failure, items=results, waited_ms=waited_ms)
        assets = {key: value for each in results for key, value in each.assets.items()}
        output = [each.output for each in results]
        return StepResult("completed", output, items=results, assets=assets, waited_ms=waited_ms)

    def is_taken_care_of(self, step: StepSpec) -> bool:
        """Whether a rule takes care of the failed items of a map, all together: none of them ends the run."""
        error = error_kinds.as_seen(step.id, MAP_ITEMS_FAILED, None, 1)
        constants = error_rules.constants_of(self.spec.variables)
        return error_rules.fitting(step, self.spec.error_rules, constants, error) is not None

    def items(self, step: StepSpec) -> list[Any]:
        source = engine_results.fill(step.over, self.scope(step), self.start_of(step))
        if source is None:
            return []
        if not isinstance(source, list):
            raise MapSourceInvalid(f"a map needs a list, not {json_type(source)}")
        if step.decides is not None:
            check_children(len(source))
        if len(source) > MAX_MAP_ITEMS:
            raise MapSourceInvalid(f"the list has {len(source)} items, a map takes at most {MAX_MAP_ITEMS}")
        for index, item in enumerate(source):
            size = len(encode(item)[1])
            if size > MAX_ITEM_BYTES:
                raise MapSourceInvalid(f"item {index} has {size} bytes, an item has at most {MAX_ITEM_BYTES}")
        return source
