"""Build a pipeline's steps from the task calls of a `@pipeline` function.

While the function runs, each call of a task adds a step instead of running the task. The call returns a
Placeholder for the step's later output. `placeholder[…]` names a part of that output. Passing a placeholder
to another task makes an edge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.context import Context
from pipeweave.authoring.placeholder import Placeholder, find_placeholder, reference_of, step_of
from pipeweave.errors import FieldError, InvalidSpec, InvalidTask
from pipeweave.json_conversion import to_json_value
from pipeweave.json_values import kind_of
from pipeweave.spec import escape
from pipeweave.suggestions import did_you_mean

_current: ContextVar[GraphBuilder | None] = ContextVar("pipeweave_graph_builder", default=None)


class CallableTask(Protocol):
    """The attributes of a task that the builder reads."""

    @property
    def id(self) -> str: ...
    @property
    def fn(self) -> Any: ...


class GraphBuilder:
    """Collects the steps of one pipeline as members of a pipeline document, and the tasks they use."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: dict[str, CallableTask] = {}
        self._ids: set[str] = set()
        # The last number in the ids of a task's steps.
        self._numbers: dict[str, int] = {}

    def call(
        self,
        task: CallableTask,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
    ) -> Placeholder:
        """Add a step that runs the task once."""
        params = {**_by_name(task, args, kwargs), **kwargs}
        _require(task, params, None)
        return self._step(task, step_id, needs, {"params": written(params, "params")} if params else {})

    def map(
        self,
        task: CallableTask,
        over: Any,
        name: str | None,
        params: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
    ) -> Placeholder:
        """Add a step that runs the task once for each item of `over`."""
        _by_name(task, (), {**params, **({name: None} if name is not None else {})})
        if params:
            _require(task, params, name or item_parameter(task, params))
        if not isinstance(over, Placeholder):
            over = _items(task, over)
        members: dict[str, Any] = {"params": written(params, "params")} if params else {}
        members["map"] = {"over": written(over, "map.over"), "as": name}
        return self._step(task, step_id, needs, members)

    def _step(
        self, task: CallableTask, step_id: str | None, needs: Iterable[Any], members: Mapping[str, Any]
    ) -> Placeholder:
        if step_id is not None and step_id in self._ids:
            raise InvalidSpec(f"the pipeline already has a step {step_id!r}")
        if self.tasks.setdefault(task.id, task) is not task:
            raise InvalidSpec(f"two different tasks of this pipeline have the id {task.id!r}")
        named, number = step_id or task.id, self._numbers.get(task.id, 1)
        while named in self._ids:
            number += 1
            named = f"{task.id}_{number}"
        self._numbers[task.id] = number
        before = [_step_of(each, self._ids) for each in needs]
        self._ids.add(named)
        self.steps.append({"id": named, "task": task.id, "needs": before, **members})
        return Placeholder("steps", (named,), named)


def _items(task: CallableTask, over: Any) -> list[Any]:
    if not isinstance(over, Iterable) or isinstance(over, str | bytes | Mapping):
        raise InvalidSpec(
            f"{task.id}.map takes a list, not {over!r}"[:300],
            hint="pass a list, a step's result, or a parameter of the pipeline",
        )
    return list(over)


def current_builder() -> GraphBuilder | None:
    """The builder of the `@pipeline` function that runs in this context; None outside such a function."""
    return _current.get()


@contextmanager
def collect_steps() -> Iterator[GraphBuilder]:
    """Collect the task calls made inside the block as steps.

    Raises:
        InvalidSpec: a `@pipeline` function called another pipeline.
    """
    if _current.get() is not None:
        raise InvalidSpec("a pipeline cannot be called inside another pipeline: call its tasks instead")
    builder = GraphBuilder()
    token = _current.set(builder)
    try:
        yield builder
    finally:
        _current.reset(token)


def item_parameter(task: CallableTask, names: Iterable[str]) -> str:
    """The parameter that takes the items of a map: the first parameter that is not in `names`."""
    taken = set(names)
    for each in call_plan(task.fn).parameters:
        if each.name not in taken:
            return each.name
    raise InvalidSpec(f"task {task.id!r} has no parameter left to take the items")


def call_function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a plain function; pass an empty Context if it needs a Context and the caller gave none."""
    try:
        plan = call_plan(fn)
    except InvalidTask:  # one of the type hints cannot be read, but a plain call needs no hints
        return fn(*args, **kwargs)
    positional = [each.name for each in plan.parameters if not each.is_keyword_only]
    has_context = plan.context in kwargs or any(isinstance(each, Context) for each in args)
    if plan.context is None or not plan.needs_context or has_context or len(args) > len(positional):
        return fn(*args, **kwargs)
    placed = dict(zip(positional, args, strict=False))
    return fn(**{plan.context: Context()}, **placed, **kwargs)


def _by_name(task: CallableTask, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Map positional arguments to parameter names, as Python does; callers never pass the Context."""
    plan = call_plan(task.fn)
    positional = [each.name for each in plan.parameters if not each.is_keyword_only]
    known = [each.name for each in plan.parameters]
    if len(args) > len(positional):
        were = "was" if len(args) == 1 else "were"
        takes = f"takes {_arguments(len(positional))}, but {len(args)} {were} given"
        raise InvalidSpec(f"task {task.id!r} {takes}", hint=_signature_hint(known))
    placed = dict(zip(positional, args, strict=False))
    for name in kwargs:
        if name in placed:
            raise InvalidSpec(f"task {task.id!r} got the argument {name!r} twice")
        if name not in known and not plan.takes_any:
            hint = did_you_mean(name, known, _signature_hint(known))
            raise InvalidSpec(f"task {task.id!r} has no parameter {name!r}", hint=hint)
    return placed


def _require(task: CallableTask, params: Mapping[str, Any], item: str | None) -> None:
    """Refuse a call with arguments that lacks a required one; without any, the run's input fills them all."""
    if not params:
        return
    missing = [
        each.name
        for each in call_plan(task.fn).parameters
        if each.is_required and each.name not in params and each.name not in (item, "input")
    ]
    if missing:
        names = ", ".join(map(repr, missing))
        noun = "parameter" if len(missing) == 1 else "parameters"
        raise InvalidSpec(
            f"task {task.id!r} needs the {noun} {names}",
            hint="give each required parameter, or call the task without arguments: the run's input fills it",
        )


def _step_of(value: Any, known: set[str]) -> str:
    step_id = step_of(value) if isinstance(value, Placeholder) else value
    if not isinstance(step_id, str):
        raise InvalidSpec(f"needs takes results or ids of earlier steps, not {value!r}")
    if step_id not in known:
        hint = did_you_mean(
            step_id, known, f"the earlier steps are {', '.join(sorted(known)[:20]) or 'none'}"
        )
        raise InvalidSpec(
            f"needs names {step_id!r}, which is not an earlier step of this pipeline", hint=hint
        )
    return step_id


def _arguments(count: int) -> str:
    return f"{count} positional argument{'' if count == 1 else 's'}"


def _signature_hint(known: Sequence[str]) -> str:
    return f"its parameters are {', '.join(known)}" if known else "it has no parameters"


def written(value: Any, path: str) -> Any:
    """Convert an argument, or a pipeline's result, to its form in a spec: placeholders become references,
    constants JSON values, and other texts are escaped.

    Raises:
        InvalidSpec: a constant cannot be converted to JSON.
    """
    if isinstance(value, Placeholder):
        return reference_of(value)
    if type(value) is str:
        return escape(value)
    if isinstance(value, Mapping):
        return {key: written(each, f"{path}.{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [written(each, f"{path}[{place}]") for place, each in enumerate(value)]
    if value is None or type(value) in (bool, int, float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {each.name: written(getattr(value, each.name), f"{path}.{each.name}") for each in fields}
    return _constant(value, path)


def _constant(value: Any, path: str) -> Any:
    if find_placeholder(value) is not None:
        problem = f"is {kind_of(value)} of results, which has no order"
        raise InvalidSpec(
            f"{path} {problem}", errors=[FieldError(path, problem, "not_json")], hint="use a list"
        )
    converted, faults = to_json_value(value, path)
    if faults:
        raise InvalidSpec(f"{faults[0].field} {faults[0].message}", errors=faults, hint=faults[0].expected)
    return written(converted, path)
