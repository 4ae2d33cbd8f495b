"""Define the stored spec of a pipeline: PipelineSpec, StepSpec, StepRetry and MapSpec.

The `@pipeline` decorator, documents and `allowed_next` all produce these values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pipeweave.labels import Labels, is_computed
from pipeweave.spec.async_defaults import AsyncDefaults
from pipeweave.spec.child_calls import ChildCall, ErrorRule
from pipeweave.spec.child_steps import Body, LoopStep
from pipeweave.spec.declared_schedule import DeclaredSchedule
from pipeweave.spec.engine_steps import EngineStep, engine_json
from pipeweave.spec.hooks import Hooks, hooks_to_json
from pipeweave.spec.joins import ALL, SETTLED, JoinRule
from pipeweave.spec.kinds import MAP, TASK, StepKind
from pipeweave.spec.numbering import numbered, numbered_call, numbered_rule
from pipeweave.spec.rules import ANY_CODE, FAIL_FAST, FAILS_RUN, ItemFailure
from pipeweave.spec.run_limits import RunConcurrency, RunRate


@dataclass(frozen=True, slots=True)
class MapSpec:
    """How a step is expanded over a list: it runs once for each item. The list may be known only at run time.

    Args:
        over: a reference to the list, or a list (whose entries may hold references).
        name: the parameter that takes the item (`as` in JSON); None for the first parameter that `params`
            does not supply, or, of a pipeline without `params`, for its whole input.
        max_parallel: of a map of pipelines or bodies, how many of them are open at once; None for 100.
        failure: what an item that failed does. `run`: what the failure mode of the run says; `settle`: the
            other items go on, then the map fails; `partial`: they go on, and the map completes with null for
            it, unless every item failed.
    """

    over: Any
    name: str | None = None
    max_parallel: int | None = None
    failure: ItemFailure = FAILS_RUN

    def to_json(self) -> dict[str, Any]:
        shown = {"over": self.over, "as": self.name}
        shown |= {} if self.max_parallel is None else {"maxParallel": self.max_parallel}
        return shown | ({} if self.failure == FAILS_RUN else {"failure": self.failure})


@dataclass(frozen=True, slots=True)
class StepRetry:
    """How often and when a step is retried, in place of what its task says.

    Args:
        attempts: the number of attempts, including the first.
        delay_ms: the delay before the second attempt (ms).
        backoff: how the delay grows from there: `fixed`, `linear` or `exponential`.
        multiplier: the factor by which an exponential delay grows, from 1.
        max_delay_ms: the longest delay (ms).
        jitter: the part of each delay that is random, 0 to 1.
        retry_on: the error codes that are retried; None for every retryable error.
    """

    attempts: int = 3
    delay_ms: int = 1_000
    backoff: str = "exponential"
    multiplier: float = 2
    max_delay_ms: int = 30_000
    jitter: float = 0
    retry_on: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "attempts": self.attempts,
            "delayMs": self.delay_ms,
            "backoff": self.backoff,
            "multiplier": self.multiplier,
            "maxDelayMs": self.max_delay_ms,
            "jitter": self.jitter,
        }
        return shown if self.retry_on is None else {**shown, "retryOn": list(self.retry_on)}


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step of a pipeline: what it does, its predecessors and its parameters.

    Args:
        id: unique in the pipeline.
        task: the id of the task that the step runs; of a step that the engine decides, `engine_task` of it.
        needs: its predecessors, in the order of the pipeline's steps.
        params: the task's parameters, may hold references; None to fill them from the run's input.
        map: how the step is expanded over a list; None if it runs once.
        decides: what the engine does for it, instead of a task; None for a step with a task.
        condition: an expression; the step is passed over if it is false or null. None for always.
        join: when it runs after several predecessors.
        retry: how often and when it is retried; None for what its task says.
        timeout_ms: the time limit of one attempt (ms); None for what its task says.
        continue_on_error: a final failure is passed over like a false condition.
        on_exhausted: `pause`: its last failure pauses the run, `fail`: it is one; None for what the pipeline
            says, or else its task.
        queue: the name of the queue that its task runs wait in; None for that of the run, or of its task.
        requires: labels of the workers that may call it, beside those of the run and of its task; their
            values may be templates. None for none.
        suspends: how long the result of a call that suspends itself may take. A dict
            `{"status": "pending", …}` suspends only where this is not None; `Suspend` always does.
        on_error: what runs when its last attempt has failed; None for what the pipeline says.
        compensate: what runs if it had completed, and its run ends badly.
        sandbox: what its call may use, with the members that the step writes (`pipeweave.sandbox`); None for
            what its task says.
    """

    id: str
    task: str
    needs: tuple[str, ...] = ()
    params: Mapping[str, Any] | None = None
    map: MapSpec | None = None
    decides: EngineStep | None = None
    condition: str | None = None
    join: JoinRule = ALL
    retry: StepRetry | None = None
    timeout_ms: int | None = None
    continue_on_error: bool = False
    on_exhausted: str | None = None
    queue: str | None = None
    requires: Labels | None = None
    suspends: AsyncDefaults | None = None
    on_error: ErrorRule | None = None
    compensate: ChildCall | None = None
    sandbox: Mapping[str, Any] | None = None

    @property
    def kind(self) -> StepKind:
        """The kind of the step's own task run."""
        if self.map is not None:
            return MAP
        return TASK if self.decides is None else self.decides.kind

    @property
    def is_called(self) -> bool:
        """Whether a worker calls its task for it, and not only for its items."""
        return self.map is None and self.decides is None

    @property
    def has_task(self) -> bool:
        """Whether it, or each of its items, runs a task of a service."""
        return self.decides is None

    @property
    def is_plain(self) -> bool:
        """Whether it runs a task once, as soon as all its predecessors completed and chose it."""
        return self.is_called and not self.waits_for_values and self.join == ALL

    @property
    def waits_for_values(self) -> bool:
        """Whether values decide about it when its predecessors let it run: it has a condition, the engine
        decides it, or they say which labels it requires.
        """
        return self.condition is not None or self.decides is not None or self.computes_labels

    @property
    def computes_labels(self) -> bool:
        """Whether values of the run say which labels it requires."""
        return self.requires is not None and any(map(is_computed, self.requires.values()))

    @property
    def known_labels(self) -> Labels:
        """The labels that it requires, but for those that it computes."""
        labels = self.requires or {}
        return {name: value for name, value in labels.items() if not is_computed(value)}

    @property
    def has_items(self) -> bool:
        """Whether it runs once for each item of a list."""
        return self.map is not None

    @property
    def over(self) -> Any:
        """What it runs over, as `MapSpec.over`; None if it has no items."""
        return None if self.map is None else self.map.over

    @property
    def item_failure(self) -> ItemFailure:
        """What the failure of one of its items does, as `MapSpec.failure`."""
        return FAILS_RUN if self.map is None else self.map.failure

    @property
    def item_name(self) -> str | None:
        """The parameter that takes the item, as `MapSpec.name`; None if it has no items."""
        return None if self.map is None else self.map.name

    @property
    def own_body(self) -> tuple[str, Body] | None:
        """The body that its items, or its rounds, run, with its place, such as `review.loop`."""
        if isinstance(self.decides, Body):
            return f"{self.id}.map", self.decides
        if isinstance(self.decides, LoopStep) and isinstance(self.decides.body, Body):
            return f"{self.id}.loop", self.decides.body
        return None

    @property
    def bodies(self) -> Iterator[tuple[str, Body]]:
        """The bodies that are written in it, by their places in the pipeline, such as `review.loop`."""
        if self.own_body is not None:
            yield self.own_body
        on_error = None if self.on_error is None else self.on_error.call
        for word, call in (("onError", on_error), ("compensate", self.compensate)):
            if call is not None and isinstance(call.runs, Body):
                yield f"{self.id}.{word}", call.runs

    def to_json(self) -> dict[str, Any]:
        """The document of the step. One without the newer keys reads as it always did, so hashes stay."""
        shown: dict[str, Any] = {"id": self.id}
        does = {"task": self.task} if self.decides is None else engine_json(self.decides)
        is_body = isinstance(self.decides, Body)
        shown |= {} if is_body else does
        shown["needs"] = list(self.needs)
        if self.params is not None:
            shown["params"] = dict(self.params)
        if self.map is not None:
            shown["map"] = {**self.map.to_json(), **(does if is_body else {})}
        return shown | self._rules_json()

    def _rules_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        if self.condition is not None:
            shown["condition"] = self.condition
        if self.join not in (ALL, SETTLED):
            shown["join"] = self.join.to_json()
        if self.retry is not None:
            shown["retry"] = self.retry.to_json()
        if self.timeout_ms is not None:
            shown["timeoutMs"] = self.timeout_ms
        if self.continue_on_error:
            shown["continueOnError"] = True
        if self.on_exhausted is not None:
            shown["onExhausted"] = self.on_exhausted
        if self.queue is not None:
            shown["queue"] = self.queue
        if self.requires is not None:
            shown["requires"] = dict(self.requires)
        if self.suspends is not None:
            shown["async"] = self.suspends.to_json()
        if self.on_error is not None:
            shown["onError"] = self.on_error.to_json()
        if self.compensate is not None:
            shown["compensate"] = self.compensate.to_json()
        if self.sandbox is not None:
            shown["sandbox"] = dict(self.sandbox)
        return shown


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline as it is stored: normalised, so that equal pipelines have equal hashes.

    Args:
        id: unique in a tenant.
        steps: the steps in document order.
        description: a text for people.
        failure_mode: `fail-fast` (default), `continue` or `partial-merge`.
        priority: priority of its task runs, lower first; None for each task's own priority.
        defaults: values for members that the run's input leaves out.
        timeout_ms: how long a run may take, ms; None for the deployment's limit.
        idle_timeout_ms: how long nothing may happen in a run, ms; None for no limit.
        code: `any` (default): a step calls the code of whichever worker takes it; `pinned`: only the code
            that its task had when the run began.
        input_schema: the fields of the run's input (see `pipeweave.schema`); None for an input that is not
            checked.
        output: what the output of a run is made of, a JSON value with references; None for the output of the
            end step (see `output.py`).
        schedule: when its runs begin by themselves. It is no part of the version, and has no hash.
        hooks: what follows the end of a run, by `onSuccess`, `onPartial` and `onFailure`, and an approval
            that begins to wait, by `onWaiting`.
        variables: values by name for expressions, constants or expressions over the input.
        error_rules: what runs when a step without `on_error` fails: the first whose condition is true.
        finally_call: what runs when all steps have ended, however they did.
        finally_timeout_ms: how long that, and all compensation, may take together (ms); None for 5 min.
        on_exhausted: for its steps that say nothing themselves; None for what their tasks say.
        concurrency: how many of its runs are under way at once; None for any number.
        rate_limit: how often its runs start; None for as often as they are asked for.
    """

    id: str
    steps: tuple[StepSpec, ...]
    description: str | None = None
    failure_mode: str = FAIL_FAST
    priority: int | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    code: str = ANY_CODE
    input_schema: Mapping[str, Any] | None = None
    output: Any = None
    schedule: DeclaredSchedule | None = None
    hooks: Hooks = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    error_rules: tuple[ErrorRule, ...] = ()
    finally_call: ChildCall | None = None
    finally_timeout_ms: int | None = None
    on_exhausted: str | None = None
    concurrency: RunConcurrency | None = None
    rate_limit: RunRate | None = None

    def to_json(self) -> dict[str, Any]:
        """The document of the spec, with its schedule."""
        shown = self.version_json()
        if self.schedule is not None:
            shown["schedule"] = self.schedule.to_json()
        return shown

    def version_json(self) -> dict[str, Any]:
        """The document of what a version stores."""
        shown: dict[str, Any] = {"id": self.id}
        if self.description is not None:
            shown["description"] = self.description
        shown["failureMode"] = self.failure_mode
        shown |= self._limits_json()
        if self.code != ANY_CODE:
            shown["code"] = self.code
        if self.on_exhausted is not None:
            shown["onExhausted"] = self.on_exhausted
        if self.defaults:
            shown["defaults"] = dict(self.defaults)
        if self.input_schema is not None:
            shown["inputSchema"] = dict(self.input_schema)
        if self.variables:
            shown["variables"] = dict(self.variables)
        if self.output is not None:
            shown["output"] = self.output
        shown |= hooks_to_json(self.hooks)
        if self.error_rules:
            shown["errorHandlers"] = [each.to_json() for each in self.error_rules]
        if self.finally_call is not None:
            shown["finally"] = self.finally_call.to_json()
        if self.finally_timeout_ms is not None:
            shown["finallyTimeoutMs"] = self.finally_timeout_ms
        shown["steps"] = [step.to_json() for step in self.steps]
        return shown

    def _limits_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        if self.priority is not None:
            shown["priority"] = self.priority
        if self.timeout_ms is not None:
            shown["timeoutMs"] = self.timeout_ms
        if self.idle_timeout_ms is not None:
            shown["idleTimeoutMs"] = self.idle_timeout_ms
        if self.concurrency is not None:
            shown["concurrency"] = self.concurrency.to_json()
        if self.rate_limit is not None:
            shown["rateLimit"] = self.rate_limit.to_json()
        return shown

    def input_with_defaults(self, run_input: Any) -> Any:
        """Fill this pipeline's defaults into a run's input.

        An input that is not an object is returned as is.
        """
        if run_input is None and self.defaults:
            return dict(self.defaults)
        if not self.defaults or not isinstance(run_input, Mapping):
            return run_input
        return {**self.defaults, **run_input}

    @cached_property
    def canonical(self) -> bytes:
        """The JSON text that is hashed: sorted keys, no spaces, UTF-8."""
        return json.dumps(
            self.version_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode("utf-8", "surrogatepass")

    @cached_property
    def spec_hash(self) -> str:
        """Lower-case hex SHA-256 of the canonical JSON of `numbered`: the order in which steps are written
        makes no version.
        """
        return self.numbered.written_hash

    @cached_property
    def written_hash(self) -> str:
        """The hash of the steps in the order in which they are written, as versions had it before."""
        return hashlib.sha256(self.canonical).hexdigest()

    @cached_property
    def numbered(self) -> PipelineSpec:
        """The spec with its steps, and those of its bodies, in the order of their numbers."""
        ordered = replace(
            self,
            steps=numbered(self.steps),
            error_rules=tuple(map(numbered_rule, self.error_rules)),
            finally_call=None if self.finally_call is None else numbered_call(self.finally_call),
        )
        return self if ordered == self else ordered

    @cached_property
    def tasks(self) -> frozenset[str]:
        """The ids of the tasks that its steps run, and the steps of its bodies."""
        return frozenset(step.task for _, step in self.all_steps if step.has_task)

    @cached_property
    def bodies(self) -> Mapping[str, PipelineSpec]:
        """What the child runs of steps with bodies run, by the places of the bodies; those in bodies, too."""
        bodies: dict[str, PipelineSpec] = {}
        of_steps = (body for step in self.steps for body in step.bodies)
        for place, body in (*of_steps, *self.own_bodies):
            bodies[place] = self._of_body(body)
            bodies |= bodies[place].bodies
        return bodies

    @property
    def own_bodies(self) -> Iterator[tuple[str, Body]]:
        """The bodies that are written beside its steps, by their places, such as `finally`."""
        rules = [(f"errorHandlers[{at}]", each.call) for at, each in enumerate(self.error_rules)]
        finally_call = [] if self.finally_call is None else [("finally", self.finally_call)]
        for place, call in (*rules, *finally_call):
            if isinstance(call.runs, Body):
                yield place, call.runs

    def _of_body(self, body: Body) -> PipelineSpec:
        # Nothing but its steps is its own: a body takes no input, and has no schedule, hook or time limit.
        return PipelineSpec(
            self.id,
            body.steps,
            failure_mode=self.failure_mode,
            priority=self.priority,
            code=self.code,
            variables=self.variables,
            on_exhausted=self.on_exhausted,
        )

    @property
    def all_steps(self) -> Iterator[tuple[str, StepSpec]]:
        """All steps with their fields in the document of the version, such as `steps[2]`; bodies' as well."""
        yield from _fields_of(self.steps, "steps")
        for place, body in self.own_bodies:
            yield from _fields_of(body.steps, f"{place}.steps")

    @cached_property
    def by_id(self) -> Mapping[str, StepSpec]:
        """The steps by id."""
        return {step.id: step for step in self.steps}


def _fields_of(steps: tuple[StepSpec, ...], field: str) -> Iterator[tuple[str, StepSpec]]:
    for at, step in enumerate(steps):
        yield f"{field}[{at}]", step
        for place, body in step.bodies:
            yield from _fields_of(body.steps, f"{field}[{at}].{place.removeprefix(step.id + '.')}.steps")
