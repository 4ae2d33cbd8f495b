"""Define the `@task` decorator, which makes a function a task that pipelines can use and workers can run.

Outside a pipeline, calling a task calls the plain function (with an empty Context if it needs one and gets
none). Inside a `@pipeline` function, calling a task adds a step instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from pipeweave.authoring import graph_builder
from pipeweave.authoring.call_targets import target_of_task
from pipeweave.authoring.context import Context
from pipeweave.authoring.idempotency_keys import KeyOption
from pipeweave.authoring.input_schema import task_parameters
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.rules_of_steps import Join, written_rules
from pipeweave.authoring.task_spec import DEFAULT_CONCURRENT, MAX_CONCURRENT, TaskSpec, code_hash
from pipeweave.durations import MAX_MS, milliseconds
from pipeweave.errors import FieldError, InvalidTask
from pipeweave.option_checks import Backoff, OnExhausted
from pipeweave.sandbox import Sandbox
from pipeweave.suggestions import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

# The attribute of an adapter's class that holds its tasks.
TASKS_OF_ADAPTER = "__pipeweave_tasks__"
# The modules of the actions that PipeWeave brings.
BUILT_IN_ACTIONS = "pipeweave.adapters."

_registry: dict[str, Task[..., Any]] = {}
_duplicates: dict[str, tuple[str, str]] = {}


class Task(Generic[P, R]):
    """A function with an id and options.

    Attributes:
        fn: the plain function.
        spec: its options.
    """

    def __init__(self, fn: Callable[..., R], spec: TaskSpec) -> None:
        self.fn = fn
        self.spec = spec
        functools.update_wrapper(self, fn)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def is_async(self) -> bool:
        """Whether its function is `async def`: many calls of it run at once in one process."""
        return inspect.iscoroutinefunction(self.fn)

    def to_registration(self) -> dict[str, Any]:
        """The task's JSON in a registration: its options, and the parameters of its function."""
        return {**self.spec.to_registration(), "parameters": task_parameters(self.fn)}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Add a step if called inside a `@pipeline` function, else call the plain function: an `async def`
        function returns a coroutine, as ever.
        """
        builder = graph_builder.current_builder()
        if builder is None:
            return cast(R, graph_builder.call_function(self.fn, args, kwargs))
        return cast(R, builder.call(self, args, kwargs))

    def map(self, over: Iterable[Any], /, *, name: str | None = None, **params: Any) -> list[R]:
        """Run the task once for each item of a list, which may be known only at run time.

        Args:
            over: a step's result, a part of it, a parameter of the pipeline, or a list.
            name: the parameter that takes the item; by default the first that `params` does not supply.
            params: further arguments, the same for every item.

        Raises:
            InvalidSpec: an argument is invalid. There is no `max_parallel`, unless the task has such a
                parameter: `concurrency` of the task limits its items, or a `@body` that calls it is mapped.
        """
        return self.options().map(over, name=name, **params)

    def options(
        self,
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        condition: Any = None,
        join: Join | None = None,
        retry: Retry | None = None,
        timeout: float | str | None = None,
        continue_on_error: bool = False,
        on_error: Any = None,
        compensate: Any = None,
        on_exhausted: OnExhausted | None = None,
        sandbox: Sandbox | Mapping[str, Any] | None = None,
        queue: str | None = None,
        requires: Mapping[str, Any] | None = None,
    ) -> TaskWithOptions[P, R]:
        """Set options of the step that the next call adds; a call outside a pipeline ignores them.

        Example: `report.options(step_id="final", needs=[a])(rows)`.

        Args:
            step_id: the step's id; by default the task's id, with `_2`, `_3` … if it is taken.
            needs: results (or ids) of steps that must end before this step, though it uses none of their
                outputs.
            condition: a comparison of results or parameters, or an expression as a text; if it is false or
                null, the step is passed over: the steps after it run, and its result is null.
            join: when it runs after several steps: `all` (the default), `all-done`, `any`, or a number: as
                soon as so many have completed.
            retry: how often and when it is retried, in place of what its task says.
            timeout: how long an attempt may run, in place of what its task says: seconds, or a text such as
                `5m`.
            continue_on_error: its last failure is passed over like a false condition.
            on_error: what runs when its last attempt has failed, and completes the step: a pipeline, its id,
                a task, or a mapping with `pipeline` or `task`, `params` and `handled`, whose texts are
                templates.
            compensate: what runs if it had completed, and its run ends badly; as `on_error`.
            on_exhausted: what follows its last attempt, in place of what the pipeline and its task say:
                `fail`, or `pause`, which pauses the run until people resume it.
            sandbox: what its call may use; where its task has a sandbox, the tighter of both counts.
            queue: the name of the queue that its task runs wait in, whatever the trigger and its task say.
            requires: labels of the workers that may call it, beside those that the trigger and its task name;
                a value may be, or name, a result of another step.

        Raises:
            InvalidSpec: the condition is known while the pipeline is drawn, or `retry` is no Retry.
        """
        rules = written_rules(
            condition=condition,
            join=join,
            retry=retry,
            timeout=timeout,
            continue_on_error=continue_on_error,
            on_error=on_error,
            compensate=compensate,
            on_exhausted=on_exhausted,
            sandbox=sandbox,
            queue=queue,
            requires=requires,
        )
        return TaskWithOptions(self, step_id, tuple(needs), rules)

    if not TYPE_CHECKING:  # a type checker shall still find attributes that do not exist

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_no_attribute(self, name), name=name, obj=self)

    def __repr__(self) -> str:
        return f"<task {self.spec.id!r}>"


# What a Celery task has: to send a message, to make a signature, or to try again.
_CELERY_SENDS = frozenset({"delay", "apply_async", "apply"})
_CELERY_SIGNATURES = frozenset({"s", "si", "signature", "subtask", "chunks", "starmap"})
_CELERY_REST = {
    "retry": "raise an exception, and set @task(retries=…)",
    "request": "take a parameter `ctx: Context`",
    "update_state": "take a parameter `ctx: Context`, and call ctx.progress(percent, message)",
}


def _no_attribute(task: Task[..., Any], name: str) -> str:
    id_ = task.__dict__["spec"].id if "spec" in task.__dict__ else "?"
    said = f"the PipeWeave task {id_!r} has no attribute {name!r}"
    if name in _CELERY_SENDS:
        return (
            f"{said}: trigger a pipeline that calls it, or queue it alone with Client.queue({id_!r}, input)"
        )
    if name in _CELERY_SIGNATURES:
        return f"{said}: call it, or its map(list), inside a @pipeline function"
    return f"{said}: {_CELERY_REST[name]}" if name in _CELERY_REST else said


class TaskWithOptions(Generic[P, R]):
    """A task with what its next step has besides its parameters; see `Task.options`."""

    def __init__(
        self, task: Task[P, R], step_id: str | None, needs: tuple[Any, ...], rules: Mapping[str, Any]
    ) -> None:
        self.task = task
        self._place: dict[str, Any] = {"step_id": step_id, "needs": needs, "rules": rules}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = graph_builder.current_builder()
        if builder is None:
            return cast(R, graph_builder.call_function(self.task.fn, args, kwargs))
        return cast(R, builder.call(self.task, args, kwargs, **self._place))

    def map(self, over: Iterable[Any], /, *, name: str | None = None, **params: Any) -> list[R]:
        """See `Task.map`."""
        builder = graph_builder.current_builder()
        if builder is not None:
            step = builder.map(self.task, over, name, params, **self._place)
            return cast("list[R]", step)
        if name is None:
            name = target_of_task(self.task).item_parameter(params)
        return [graph_builder.call_function(self.task.fn, (), {name: item, **params}) for item in over]


class Decorator(Protocol):
    """The decorator that `@task(…)` returns.

    Callers do not pass the Context, so the task's type leaves out a first parameter annotated Context.
    """

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(fn: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...


@overload
def task(fn: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(
    *,
    id: str | None = None,
    allowed_next: Iterable[str | Task[..., Any]] = (),
    timeout: float | str = 300,
    retry: Retry | None = None,
    retries: int = 3,
    retry_backoff: Backoff = "exponential",
    retry_delay_ms: int = 1_000,
    max_retry_delay_ms: int = 86_400_000,
    retry_multiplier: float = 2,
    retry_jitter: float = 0,
    retry_on: Sequence[str] | None = None,
    on_exhausted: OnExhausted = "fail",
    heartbeat_interval_ms: int = 60_000,
    concurrency: int = 0,
    concurrent: int = ...,
    rate_limit: str | None = None,
    priority: int = 100,
    queue: str | None = None,
    requires: Mapping[str, str] | None = None,
    idempotency_ttl: int | str | None = None,
    idempotency_key: KeyOption | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    version: str | None = None,
    memory: str | int | None = None,
    cpu: str | float | None = None,
    sandbox: Sandbox | None = None,
) -> Decorator: ...


def task(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task: `@task` or `@task(retries=5, timeout=60)`.

    The options, their units and defaults are those of `TaskSpec`. In addition, `id` is the function's name by
    default, `allowed_next` takes tasks as well as ids, `timeout` and `idempotency_ttl` take texts such as
    `30s`, `5m`, `2h` or `7d` as well as seconds, and `retry` takes a `Retry` in place of the options
    `retries`, `retry_…` and `max_retry_delay_ms`.

    Raises:
        InvalidTask: an option is invalid or unknown, or the function cannot be a task.
    """
    _refuse_unknown(options)
    if fn is not None:
        return make_task(fn, options)
    return lambda decorated: make_task(decorated, options)


_OPTIONS = (
    *(each for each in TaskSpec.__dataclass_fields__ if each not in ("code_hash", "name")),
    "retry",
)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    unknown = [each for each in options if each not in _OPTIONS]
    if unknown:
        raise InvalidTask(
            f"{unknown[0]} is not an option of a task",
            errors=[FieldError(each, "is not an option of a task", "unknown_option") for each in unknown],
            hint=did_you_mean(unknown[0], _OPTIONS, f"the options are {', '.join(_OPTIONS)}", cutoff=0.5),
        )


def make_task(fn: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
    """Make a function a task, and register it.

    Raises:
        InvalidTask: as `task`.
    """
    _refuse_unknown(options)
    _require_plain_function(fn)
    spec_options = _with_seconds(_with_retry(options))
    _require_concurrent_function(fn, spec_options)
    after = spec_options.get("allowed_next", ())
    if isinstance(after, str) or not isinstance(after, Iterable):
        message = f"allowed_next must be a list of tasks, not {after!r}"
        raise InvalidTask(
            message, errors=[FieldError("allowed_next", "must be a list of tasks", "invalid_type")]
        )
    spec_options["allowed_next"] = tuple(each.id if isinstance(each, Task) else each for each in after)
    if spec_options.get("id") is None:
        spec_options["id"] = fn.__name__
    if spec_options.get("description") is None:
        spec_options["description"] = (inspect.getdoc(fn) or "").partition("\n")[0] or None
    spec = TaskSpec(
        code_hash=code_hash(fn, spec_options.get("version")),
        name=f"{fn.__module__}.{fn.__qualname__}",
        **spec_options,
    )
    made: Task[..., Any] = Task(fn, spec)
    _register(made)
    return made


def _with_retry(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a TaskSpec: `retry` is replaced by the plain options it is equivalent to."""
    spec_options = dict(options)
    retry = spec_options.pop("retry", None)
    if isinstance(spec_options.get("retry_on"), list):
        spec_options["retry_on"] = tuple(spec_options["retry_on"])
    if retry is None:
        return spec_options
    if not isinstance(retry, Retry):
        wrong = FieldError(
            "retry", f"must be a Retry, not {retry!r}"[:500], "invalid_type", "Retry(attempts=3)"
        )
        raise InvalidTask(
            f"retry {wrong.message}",
            errors=[wrong],
            hint="from pipeweave import Retry; retry=Retry(attempts=3)",
        )
    retry_options = retry.to_options()
    conflicts = [
        FieldError(each, "is set by retry, too", "conflict") for each in retry_options if each in spec_options
    ]
    if conflicts:
        raise InvalidTask(
            f"{conflicts[0].field} and retry cannot both be given",
            errors=conflicts,
            hint=f"use either Retry(…), or {', '.join(retry_options)}",
        )
    return spec_options | retry_options


_LONGEST_TTL_MS = 100 * MAX_MS


def _with_seconds(options: dict[str, Any]) -> dict[str, Any]:
    """Convert durations with a unit to seconds; a text that is none is left for TaskSpec to refuse."""
    for option, longest_ms in (("timeout", MAX_MS), ("idempotency_ttl", _LONGEST_TTL_MS)):
        ms = (
            milliseconds(options[option], longest_ms=longest_ms)
            if isinstance(options.get(option), str)
            else None
        )
        if ms is not None:
            options[option] = ms // 1_000 if ms % 1_000 == 0 else ms / 1_000
    return options


def _require_plain_function(fn: Any) -> None:
    name = getattr(fn, "__qualname__", repr(fn))
    if isinstance(fn, Task):
        raise InvalidTask(f"{name} is already a task")
    if not inspect.isfunction(fn):
        raise InvalidTask(_not_a_function(fn))
    if _is_method(fn):
        raise InvalidTask(
            f"{name} is a method, and no worker has the object it belongs to",
            hint="write the task as a function outside the class, or the class as an adapter: "
            "@adapter before it, @action before its methods",
        )
    require_named_parameters(fn)


def require_named_parameters(fn: Callable[..., Any], *, bound: int = 0) -> None:
    """Refuse a function that cannot be called with its parameters by name, or that gives no result at once.

    Args:
        bound: so many of its first parameters are filled already: 1 for a method.

    Raises:
        InvalidTask: it is a generator, or has further positional-only parameters.
    """
    name = fn.__qualname__
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidTask(f"{name} is a generator: return a list")
    if fn.__code__.co_posonlyargcount > bound:
        raise InvalidTask(f"{name} has positional-only parameters, but parameters are filled by name")


def _not_a_function(fn: Any) -> str:
    if callable(getattr(fn, "apply_async", None)):
        return f"{fn!r} is a task of Celery already: put @task alone on the plain function that it calls"
    return f"{fn!r} is not a function: put @task before `def`, and give its options by name"


def _is_method(fn: Callable[..., Any]) -> bool:
    """Whether a function stands in the body of a class and takes the object or the class."""
    holder = fn.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(fn).parameters), None)
    return first in ("self", "cls") and bool(holder) and not holder.endswith("<locals>")


def _require_concurrent_function(fn: Callable[..., Any], options: dict[str, Any]) -> None:
    """Set `concurrent` for an `async def` function that does not say; refuse it for any other function."""
    if inspect.iscoroutinefunction(fn):
        # A box serves one call at a time.
        options.setdefault("concurrent", DEFAULT_CONCURRENT if options.get("sandbox") is None else 1)
    elif options.get("concurrent", 1) != 1:
        expected = f"1, or an `async def` function with 1 to {MAX_CONCURRENT}"
        wrong = FieldError("concurrent", "is for `async def` tasks alone", "unsupported", expected)
        raise InvalidTask(
            f"task {options.get('id') or fn.__name__!r}: {wrong.field} {wrong.message}",
            errors=[wrong],
            hint="write `async def`, or start more processes: `pipeweave worker --concurrency N`",
        )


def _register(made: Task[..., Any]) -> None:
    """Register a task under its id; a newer task replaces an older one.

    If two different functions define the same id, note both: a worker that loads both refuses to start. An
    action that PipeWeave brings gives way to a task of the user's.
    """
    before = _registry.get(made.id)
    if before is not None and _is_built_in(made) and not _is_built_in(before):
        return
    _registry[made.id] = made
    if (
        before is None
        or _is_built_in(before)
        or _source(before) == _source(made)
        or "<locals>" in _source(made) + _source(before)
    ):
        return
    _duplicates[made.id] = (str(before.spec.name), str(made.spec.name))


def _is_built_in(made: Task[..., Any]) -> bool:
    return made.fn.__module__.startswith(BUILT_IN_ACTIONS)


def _source(made: Task[..., Any]) -> str:
    """The file and name of a task's function; equal if a module is imported twice, once as __main__."""
    plain = inspect.unwrap(made.fn)
    code = plain.__code__ if inspect.isfunction(plain) else None
    return f"{code.co_filename if code else ''}:{getattr(made.fn, '__qualname__', made.id)}"


def registered_tasks() -> dict[str, Task[..., Any]]:
    """Every task defined so far in this process, by id."""
    return dict(_registry)


def duplicate_tasks() -> dict[str, tuple[str, str]]:
    """Task ids that two different functions define, each with the names of both functions."""
    return dict(_duplicates)


def collect(module: ModuleType) -> dict[str, Task[..., Any]]:
    """The tasks in a module's namespace by id, including imported tasks and those of adapters.

    Raises:
        InvalidTask: two of them have the same id.
    """
    tasks: dict[str, Task[..., Any]] = {}
    for each in (task for member in vars(module).values() for task in _tasks_of(member)):
        if tasks.setdefault(each.id, each) is not each:
            places = f"{tasks[each.id].spec.name} and {each.spec.name}"
            raise InvalidTask(f"{module.__name__} has two tasks {each.id!r}: {places}")
    return tasks


def _tasks_of(member: Any) -> Iterable[Task[..., Any]]:
    if isinstance(member, type):
        return cast("Iterable[Task[..., Any]]", vars(member).get(TASKS_OF_ADAPTER, ()))
    return (member,) if isinstance(member, Task) else ()
