"""Define `@adapter` and `@action`: a class whose methods are tasks, with the ids `adapter.action`.

Steps of documents name such a task by `adapter` and `action`. A worker process makes one object of the class,
when the first action of it is called; what takes time to open, such as a connection, belongs to that object.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from pipeweave.authoring import graph_builder
from pipeweave.authoring.context import Context
from pipeweave.authoring.idempotency_keys import KeyOption
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.task import TASKS_OF_ADAPTER, Task, make_task, require_named_parameters
from pipeweave.errors import FieldError, InvalidTask
from pipeweave.option_checks import Backoff, OnExhausted, name_mistakes
from pipeweave.sandbox import Sandbox

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class ActionOptions(TypedDict, total=False):
    """The options of an action: those of `@task`. `id` is the name of the action, by default that of the
    method; the id of the task is `adapter.action`.
    """

    id: str
    allowed_next: Iterable[str | Task[..., Any]]
    timeout: float | str
    retry: Retry
    retries: int
    retry_backoff: Backoff
    retry_delay_ms: int
    max_retry_delay_ms: int
    retry_multiplier: float
    retry_jitter: float
    retry_on: Sequence[str]
    heartbeat_interval_ms: int
    concurrency: int
    concurrent: int
    rate_limit: str
    priority: int
    queue: str
    requires: Mapping[str, str]
    idempotency_ttl: int | str
    idempotency_key: KeyOption
    on_exhausted: OnExhausted
    description: str
    input_schema: Mapping[str, Any]
    version: str
    memory: str | int
    cpu: str | float
    sandbox: Sandbox


class AdapterAction(Generic[P, R]):
    """A method that `@action` marks.

    Read from a class with `@adapter` it is the task, which a `@pipeline` function calls; read from an object
    it is the method, which a test calls.
    """

    def __init__(
        self, method: Callable[..., R], options: Mapping[str, Any], task: Task[P, R] | None = None
    ) -> None:
        self.method = method
        self.options = options
        self.task = task
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Task[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Callable[P, R]: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> Task[P, R] | Callable[P, R]:
        if instance is not None:
            return self._of(instance)
        if self.task is None:
            raise InvalidTask(
                f"{self.method.__qualname__} is an action of no adapter",
                hint=f'put @adapter("name") before `class {owner.__name__}`',
            )
        return self.task

    def _of(self, instance: object) -> Callable[P, R]:
        bound = MethodType(self.method, instance)

        @functools.wraps(bound)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if self.task is not None and graph_builder.current_builder() is not None:
                return self.task(*args, **kwargs)
            return cast(R, graph_builder.call_function(bound, args, kwargs))

        return call


class ActionDecorator(Protocol):
    """The decorator that `@action(…)` returns. Callers do not pass the Context, as with tasks."""

    @overload
    def __call__(self, method: Callable[Concatenate[Any, Context, P], R], /) -> AdapterAction[P, R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[Any, P], R], /) -> AdapterAction[P, R]: ...


@overload
def action(method: Callable[Concatenate[Any, Context, P], R], /) -> AdapterAction[P, R]: ...


@overload
def action(method: Callable[Concatenate[Any, P], R], /) -> AdapterAction[P, R]: ...


@overload
def action(**options: Unpack[ActionOptions]) -> ActionDecorator: ...


def action(method: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a method of an adapter a task: `@action` or `@action(retries=5, timeout="10s")`.

    The options are those of `@task`, but `id`, which is the name of the action.

    Raises:
        InvalidTask: it does not stand before a method that can be called with its parameters by name. Wrong
            options are refused by `@adapter`.
    """
    if method is not None:
        return _marked(method, options)
    return lambda decorated: _marked(decorated, options)


def _marked(method: Any, options: Mapping[str, Any]) -> AdapterAction[..., Any]:
    if not inspect.isfunction(method):
        raise InvalidTask(f"{method!r} is not a method: put @action before `def`, and its options by name")
    if not _takes_object(method):
        raise InvalidTask(f"{method.__qualname__} takes no object: its first parameter must be `self`")
    require_named_parameters(method, bound=1)
    return AdapterAction(method, options)


def _takes_object(method: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first = next(iter(inspect.signature(method).parameters.values()), None)
    return first is not None and first.kind in kinds


def adapter(name: str) -> Callable[[type[C]], type[C]]:
    """Make the actions of a class tasks: `@adapter("payments")` before a class with `@action` methods.

    Each action is a task `name.action`, as any other: workers register it, steps of documents name it by
    `adapter` and `action`, and a `@pipeline` function calls it as `Payments.charge(…)`.

    Args:
        name: of the adapter.

    Raises:
        InvalidTask: the name or an option of an action is invalid, the class has no action, or it cannot be
            made without arguments.
    """
    errors = list(name_mistakes(name, "name"))
    if errors:
        raise InvalidTask(
            f"adapter: {errors[0].field} {errors[0].message}",
            errors=errors,
            hint='write @adapter("payments") before the class',
        )

    def register(cls: type[C]) -> type[C]:
        _register(name, cls)
        return cls

    return register


def _register(name: str, cls: Any) -> None:
    if not inspect.isclass(cls):
        raise InvalidTask(f"{cls!r} is not a class: @adapter stands before a class with @action methods")
    actions = _actions_of(cls)
    if not actions:
        hint = "put @action before its methods"
        raise InvalidTask(f"adapter {name!r} has no action: {cls.__qualname__} has no @action", hint=hint)
    _require_no_arguments(name, cls)
    shared = SharedObject(cls)
    made = {each: _made(name, shared, unmade) for each, unmade in actions.items()}
    for attribute, each in made.items():
        setattr(cls, attribute, each)
    setattr(cls, TASKS_OF_ADAPTER, tuple(each.task for each in made.values()))


def _actions_of(cls: type[Any]) -> dict[str, AdapterAction[..., Any]]:
    """The actions of a class and of those that it inherits from, in the order of their definition."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members |= vars(base)
    return {name: each for name, each in members.items() if isinstance(each, AdapterAction)}


def _require_no_arguments(name: str, cls: type[Any]) -> None:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise InvalidTask(
            f"adapter {name!r}: {cls.__qualname__} cannot be made without arguments ({error})",
            hint="let its __init__ read what it needs, from the environment for example",
        ) from None
    except ValueError:  # a class of C has no signature
        return


def _made(name: str, shared: SharedObject, unmade: AdapterAction[..., Any]) -> AdapterAction[..., Any]:
    own = unmade.options.get("id") or unmade.method.__name__
    if not isinstance(own, str) or "." in own:
        wrong = FieldError("id", f"is {own!r}: the name of an action has no dot"[:500], "invalid_id")
        raise InvalidTask(f"adapter {name!r}: {wrong.field} {wrong.message}", errors=[wrong])
    function = _function_of(shared, unmade.method)
    if unmade.options.get("sandbox") is not None:
        raise InvalidTask(
            f"action {name}.{own}: an action has no sandbox, because its adapter lives in the worker",
            errors=[FieldError("sandbox", "is for tasks alone", "unsupported")],
            hint="write it as a function with @task(sandbox=Sandbox(…))",
        )
    made = make_task(function, {**unmade.options, "id": f"{name}.{own}"})
    return AdapterAction(unmade.method, unmade.options, made)


def _function_of(shared: SharedObject, method: Callable[..., Any]) -> Callable[..., Any]:
    """The function that workers call: the method, of the object of this process."""
    function: Any
    if inspect.iscoroutinefunction(method):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await method(shared.get(), *args, **kwargs)

        function = call_async
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return method(shared.get(), *args, **kwargs)

        function = call
    functools.update_wrapper(function, method)
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return cast("Callable[..., Any]", function)


class SharedObject:
    """The object of an adapter's class: one in each process, made when it is first needed.

    A forked child makes its own: connections must not be shared with the parent.
    """

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        self._made: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def get(self) -> Any:
        """The object of this process. What its constructor raises, the call raises; the next tries again."""
        if (made := self._of_this_process()) is None:
            with self._lock:
                if (made := self._of_this_process()) is None:
                    made = self._made = os.getpid(), self._cls()
        return made[1]

    def _of_this_process(self) -> tuple[int, Any] | None:
        return self._made if self._made is not None and self._made[0] == os.getpid() else None
