"""Define the `@pipeline` decorator, which turns a function that calls tasks or pipelines into a pipeline."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from pipeweave.authoring import formulas, graph_builder
from pipeweave.authoring.bodies import check_outputs
from pipeweave.authoring.call_targets import item_of_pipeline
from pipeweave.authoring.drawing import watch_drawing
from pipeweave.authoring.input_schema import pipeline_schema
from pipeweave.authoring.placeholder import Placeholder
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.rules_of_steps import Join, written_rules
from pipeweave.authoring.schedule import Schedule
from pipeweave.authoring.webhook import Hook
from pipeweave.authoring.webhook import written as written_hooks
from pipeweave.authoring.written_calls import written_call, written_rules_for_errors
from pipeweave.authoring.written_values import constant, written
from pipeweave.errors import InvalidSpec
from pipeweave.json_conversion import to_json_value
from pipeweave.option_checks import OnExhausted
from pipeweave.spec import ALL, PipelineSpec, StepSpec, parse_spec
from pipeweave.spec.rules import FAILS_RUN, ItemFailure

P = ParamSpec("P")
R = TypeVar("R")

_registry: dict[str, Pipeline[..., Any]] = {}


def _not_set(pipeline: Pipeline[..., Any], run_input: Mapping[str, Any]) -> Any:
    raise RuntimeError(f"nothing runs pipeline {pipeline.id!r} in this process")


_run_here: Callable[[Pipeline[..., Any], Mapping[str, Any]], Any] = _not_set


def run_plain_calls_with(run: Callable[[Pipeline[..., Any], Mapping[str, Any]], Any]) -> None:
    """Say what runs a pipeline that is called like a function, but whose steps are not only called.

    Args:
        run: takes the pipeline and the run's input, gives the run's output, and raises its error.
    """
    global _run_here
    _run_here = run


def _is_just_called(step: StepSpec) -> bool:
    """Whether a call of the plain function treats a step as a run does, but for retries and time limits."""
    follows_failures = step.continue_on_error or step.on_error is not None
    return step.has_task and step.condition is None and step.join == ALL and not follows_failures


class Pipeline(Generic[P, R]):
    """A function that defines a pipeline by calling tasks.

    The function runs when `spec` is first read, so the tasks it calls may be defined after it. Calling the
    Pipeline in another `@pipeline` function makes a step that runs it. Elsewhere it calls the plain function:
    its tasks then run in this process. A pipeline whose steps have conditions, or are decided by the engine,
    is run by `pipeweave.testing` then: a block of `with when(…):` could not be left out otherwise.

    Attributes:
        fn: the plain function.
        id: the pipeline's id.
    """

    def __init__(self, fn: Callable[P, R], id: str, options: Mapping[str, Any]) -> None:
        self.fn = fn
        self.id = id
        self._options = options
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = graph_builder.current_builder()
        if builder is not None:
            return cast(R, builder.run(self, args, kwargs))
        if all(_is_just_called(each) for each in self.spec.steps):
            return self.fn(*args, **kwargs)
        arguments = inspect.signature(self.fn).bind(*args, **kwargs).arguments
        return cast(R, _run_here(self, constant(arguments, "input")))

    def map(
        self,
        over: Iterable[Any],
        /,
        *,
        name: str | None = None,
        max_parallel: int | None = None,
        failure: ItemFailure = FAILS_RUN,
        **params: Any,
    ) -> list[R]:
        """Run the pipeline once for each item of a list, each in a run of its own.

        Example: `one_file.map(list_files(folder), max_parallel=20)`.

        Args:
            over: a step's result, a part of it, a parameter of the pipeline, or a list.
            name: the parameter that takes the item; by default the first that `params` does not supply. A
                pipeline without parameters gets the item as its whole input.
            max_parallel: how many of the runs are open at once, 1 to 1,000; 100 by default.
            failure: what a failed run does: `run`, what the failure mode says; `settle`, the others go on,
                and then the step fails; `partial`, the step completes, with null for it, unless all failed.
            params: further arguments, the same for every item.
        """
        return self.options().map(over, name=name, max_parallel=max_parallel, failure=failure, **params)

    def options(
        self,
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        condition: Any = None,
        join: Join | None = None,
        retry: Retry | None = None,
        continue_on_error: bool = False,
        on_error: Any = None,
        compensate: Any = None,
    ) -> PipelineWithOptions[P, R]:
        """Set options of the step that the next call adds; a call outside a pipeline ignores them.

        Example: `charge_card.options(retry=Retry(attempts=2), needs=[stock])(order)`.

        Args:
            step_id: the step's id; by default the pipeline's id, with `_2`, `_3` … if it is taken.
            needs: as of a task's `options`; so are `condition`, `join`, `continue_on_error`, `on_error` and
                `compensate`.
            retry: how often and when the pipeline is run again after a run of it failed; never by default.

        Raises:
            InvalidSpec: the condition is known while the pipeline is drawn, or `retry` is no Retry.
        """
        rules = written_rules(
            condition=condition,
            join=join,
            retry=retry,
            continue_on_error=continue_on_error,
            on_error=on_error,
            compensate=compensate,
        )
        return PipelineWithOptions(self, step_id, tuple(needs), rules)

    @cached_property
    def spec(self) -> PipelineSpec:
        """The pipeline's spec, as it is stored.

        Raises:
            InvalidSpec: the function uses a placeholder as a value, or the graph is invalid.
        """
        return self._built[0]

    @property
    def tasks(self) -> Mapping[str, Any]:
        """The tasks that the pipeline uses, by id."""
        return self._built[1]

    @property
    def pipelines(self) -> Mapping[str, Any]:
        """The pipelines that its steps run, by id."""
        return self._built[2]

    @cached_property
    def _built(self) -> tuple[PipelineSpec, Mapping[str, Any], Mapping[str, Any]]:
        inputs: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        for name, each in inspect.signature(self.fn).parameters.items():
            if each.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
                raise InvalidSpec(
                    f"pipeline {self.id!r}: parameter {name!r} must be one that can be given by name",
                    hint="name each input of the pipeline: no *args, no **kwargs, nothing before a `/`",
                )
            inputs[name] = Placeholder(formulas.path("input", (name,)))
            if each.default is not inspect.Parameter.empty:
                defaults[name] = self._default(name, each.default)
        with graph_builder.collect_steps() as builder, watch_drawing(self.id, self.fn, builder):
            result = self.fn(**inputs)  # type: ignore[call-arg]  # every argument is a placeholder here
            steps = builder.document_steps()
        document = {**self._options, "id": self.id, "defaults": defaults, "steps": steps}
        document["inputSchema"] = pipeline_schema(self.fn, builder)
        document["output"] = self._output(result)
        document["schedule"] = self._schedule()
        try:
            spec = parse_spec(document)
            check_outputs(spec, builder.drawn_bodies)
            return spec, builder.tasks, builder.pipelines
        except InvalidSpec as error:
            code = self.fn.__code__
            detail = f"{error.detail} ({code.co_filename}:{code.co_firstlineno})"
            raise InvalidSpec(detail, errors=error.errors, hint=error.hint, **error.context) from None

    def _schedule(self) -> Any:
        schedule = self._options["schedule"]
        return schedule.to_json() if isinstance(schedule, Schedule) else schedule

    def _output(self, result: Any) -> Any:
        try:
            return written(result, "the returned value")
        except InvalidSpec as error:
            detail = f"pipeline {self.id!r}: {error.detail}"
            raise InvalidSpec(detail, errors=error.errors, hint=error.hint) from None

    def _default(self, name: str, value: Any) -> Any:
        converted, faults = to_json_value(value, f"defaults.{name}")
        if faults:
            detail = f"pipeline {self.id!r}: the default of {name!r} {faults[0].message}"
            raise InvalidSpec(detail, errors=faults, hint=faults[0].expected)
        return converted

    def __repr__(self) -> str:
        return f"<pipeline {self.id!r}>"


class PipelineWithOptions(Generic[P, R]):
    """A pipeline with what its next step has besides its input; see `Pipeline.options`."""

    def __init__(
        self,
        pipeline: Pipeline[P, R],
        step_id: str | None,
        needs: tuple[Any, ...],
        rules: Mapping[str, Any],
    ) -> None:
        self.pipeline = pipeline
        self._place: dict[str, Any] = {"step_id": step_id, "needs": needs, "rules": rules}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = graph_builder.current_builder()
        if builder is None:
            return self.pipeline(*args, **kwargs)
        return cast(R, builder.run(self.pipeline, args, kwargs, **self._place))

    def map(
        self,
        over: Iterable[Any],
        /,
        *,
        name: str | None = None,
        max_parallel: int | None = None,
        failure: ItemFailure = FAILS_RUN,
        **params: Any,
    ) -> list[R]:
        """See `Pipeline.map`."""
        builder = graph_builder.current_builder()
        if builder is not None:
            step = builder.run_each(
                self.pipeline, over, name, params, max_parallel=max_parallel, failure=failure, **self._place
            )
            return cast("list[R]", step)
        taking = item_of_pipeline(self.pipeline, name, params)
        call: Callable[..., R] = self.pipeline
        return [call(**({} if taking is None else {taking: item}), **params) for item in over]

    def in_rounds(self, loop: Mapping[str, Any], args: tuple[Any, ...], params: Mapping[str, Any]) -> Any:
        """Add a step that runs the pipeline in rounds; see `loop`."""
        builder = graph_builder.open_builder("loop")
        return builder.run(self.pipeline, args, params, loop=loop, **self._place)


@overload
def pipeline(fn: Callable[P, R], /) -> Pipeline[P, R]: ...


@overload
def pipeline(
    *,
    id: str | None = None,
    description: str | None = None,
    failure_mode: str = "fail-fast",
    priority: int | None = None,
    timeout: float | str | None = None,
    idle_timeout: float | str | None = None,
    on_exhausted: OnExhausted | None = None,
    concurrency: int | Mapping[str, Any] | None = None,
    rate_limit: str | Mapping[str, Any] | None = None,
    code: str = "any",
    schedule: str | Schedule | None = None,
    on_success: Hook | Sequence[Hook] | None = None,
    on_partial: Hook | Sequence[Hook] | None = None,
    on_failure: Hook | Sequence[Hook] | None = None,
    on_waiting: Hook | Sequence[Hook] | None = None,
    variables: Mapping[str, Any] | None = None,
    error_handlers: Sequence[Any] = (),
    finally_: Any = None,
    finally_timeout: float | str | None = None,
) -> Callable[[Callable[P, R]], Pipeline[P, R]]: ...


def pipeline(
    fn: Callable[P, R] | None = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    failure_mode: str = "fail-fast",
    priority: int | None = None,
    timeout: float | str | None = None,
    idle_timeout: float | str | None = None,
    on_exhausted: OnExhausted | None = None,
    concurrency: int | Mapping[str, Any] | None = None,
    rate_limit: str | Mapping[str, Any] | None = None,
    code: str = "any",
    schedule: str | Schedule | None = None,
    on_success: Hook | Sequence[Hook] | None = None,
    on_partial: Hook | Sequence[Hook] | None = None,
    on_failure: Hook | Sequence[Hook] | None = None,
    on_waiting: Hook | Sequence[Hook] | None = None,
    variables: Mapping[str, Any] | None = None,
    error_handlers: Sequence[Any] = (),
    finally_: Any = None,
    finally_timeout: float | str | None = None,
) -> Pipeline[P, R] | Callable[[Callable[P, R]], Pipeline[P, R]]:
    """Make a function a pipeline: `@pipeline` or `@pipeline(failure_mode="continue")`.

    A parameter of the function is the reference `${input.<name>}`; its default is the input's default.

    Args:
        fn: the function, if the decorator is used without options.
        id: the pipeline's id; the function's name by default.
        description: a text for people; the first line of the docstring by default.
        failure_mode: `fail-fast`, `continue` or `partial-merge`.
        priority: priority of its task runs, lower first; None for each task's own priority.
        timeout: how long a run may take: seconds, or a text such as `30s`, `5m` or `2h`; None for the
            deployment's limit.
        idle_timeout: how long nothing may happen in a run: as `timeout`, but None for no limit.
        on_exhausted: what follows the last attempt of its steps: `fail`, or `pause`, which pauses the run
            until people resume it; None for what each task says. A step may say otherwise.
        concurrency: how many of its runs are under way at once: a number, or a mapping with `limit`, `key` (a
            template over the run's input: runs with the same text share the limit) and `on_limit`: `queue`,
            `skip` or `cancel-old`; None for any number.
        rate_limit: how often its runs start: a rate such as `100/m`, or a mapping with `rate` and `key`; None
            for as often as they are asked for.
        code: `any`: a step calls the code of whichever worker takes it; `pinned`: only the code that its task
            had when the run began, while a deploy goes on.
        schedule: when its runs begin by themselves: a cron line in UTC, or a Schedule.
        on_success: what follows a run that completed: a pipeline or its id, a Webhook, or several of them.
        on_partial: what follows a run that ended `partial`.
        on_failure: what follows a run that failed; a cancelled run did not.
        on_waiting: what follows an approval of a run that begins to wait.
        variables: values by name for expressions that are written as texts: constants, and templates over the
            run's input: `{"limit": 1000, "gross": "${input.net * 1.2}"}`.
        error_handlers: what runs when a step without `on_error` has failed, the first whose `condition` is
            true: mappings with `condition`, `pipeline` or `task`, `params` and `handled`, whose texts are
            templates.
        finally_: what runs when all steps have ended, however they did: a pipeline, its id, a task, or a
            mapping with `pipeline` or `task` and `params`.
        finally_timeout: how long that, and all that takes steps back, may take together; 5 min by default.

    Raises:
        InvalidSpec: `fn` is not a function.
    """
    options: dict[str, Any] = {
        "description": description,
        "failureMode": failure_mode,
        "priority": priority,
        "timeout": timeout,
        "idleTimeout": idle_timeout,
        "code": code,
        "schedule": schedule,
        "onSuccess": written_hooks(on_success),
        "onPartial": written_hooks(on_partial),
        "onFailure": written_hooks(on_failure),
        "onWaiting": written_hooks(on_waiting),
    }
    if on_exhausted is not None:
        options["onExhausted"] = on_exhausted
    if concurrency is not None:
        options["concurrency"] = constant(concurrency, "concurrency")
    if rate_limit is not None:
        options["rateLimit"] = constant(rate_limit, "rate_limit")
    if variables:
        options["variables"] = constant(variables, "variables")
    if error_handlers:
        options["errorHandlers"] = written_rules_for_errors(error_handlers, "error_handlers")
    if finally_ is not None:
        options["finally"] = written_call(finally_, "finally_")
    if finally_timeout is not None:
        options["finallyTimeout"] = finally_timeout
    if fn is not None:
        return _make(fn, id, options)
    return lambda decorated: _make(decorated, id, options)


def _make(fn: Callable[P, R], id: str | None, options: Mapping[str, Any]) -> Pipeline[P, R]:
    _require_function(fn)
    about = options["description"] or (inspect.getdoc(fn) or "").partition("\n")[0] or None
    made = Pipeline(fn, id or fn.__name__, {**options, "description": about})
    _registry[made.id] = made
    return made


def _require_function(fn: Any) -> None:
    if not inspect.isfunction(fn):
        raise InvalidSpec(f"{fn!r} is not a function: put @pipeline before `def`")
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidSpec(
            f"pipeline {fn.__name__!r} is `async def`, but it is only drawn, once: nothing in it is awaited",
            hint="write `def`; tasks may be `async def`",
        )


def registered_pipelines() -> dict[str, PipelineSpec]:
    """The specs of every `@pipeline` defined so far in this process, by id.

    Raises:
        InvalidSpec: one of the pipelines is invalid.
    """
    return {id: each.spec for id, each in _registry.items()}


def registered_pipeline(id: str) -> Pipeline[..., Any] | None:
    """The `@pipeline` with an id that was defined last in this process; None without one."""
    return _registry.get(id)
