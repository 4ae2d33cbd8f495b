"""Build a pipeline's steps from the task calls of a `@pipeline` function.

While the function runs, each call of a task adds a step instead of running the task. The call returns a
Placeholder for the step's later output. `placeholder[…]` names a part of that output. Passing a placeholder
to another task makes an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.context import Context
from pipeweave.errors import FieldError, InvalidSpec, InvalidTask
from pipeweave.spec import escape, show_path
from pipeweave.suggestions import did_you_mean

_current: ContextVar[GraphBuilder | None] = ContextVar("pipeweave_graph_builder", default=None)


class CallableTask(Protocol):
    """The attributes of a task that the builder reads."""

    @property
    def id(self) -> str: ...
    @property
    def fn(self) -> Any: ...


class Placeholder:
    """A value that is known only at run time: a step's output, the run's input, or a part of them."""

    def __init__(self, root: str, path: tuple[str | int, ...], step: str | None = None) -> None:
        self._root = root
        self._path = path
        self._step = step

    @property
    def step_id(self) -> str | None:
        """The step whose output this is; None for the run's input."""
        return self._step

    @property
    def reference(self) -> str:
        """The `${…}` reference to this value in a spec."""
        return show_path(self._root, self._path)

    def __getitem__(self, key: str | int) -> Placeholder:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise InvalidSpec(f"{self!r} can be indexed with a name or a number, not with {key!r}")
        return Placeholder(self._root, (*self._path, key), self._step)

    def __repr__(self) -> str:
        return f"<{self.reference}>"

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidSpec(
            f"{self!r} {problem} while the pipeline is defined: its value is known only at run time",
            hint="pass it to a task, or use .map() to run a task for each item of a list",
        )

    def __iter__(self) -> Iterator[Any]:
        self._refuse("cannot be iterated")

    def __len__(self) -> int:
        self._refuse("has no length")

    def __bool__(self) -> bool:
        self._refuse("is neither true nor false")

    def __format__(self, spec: str) -> str:
        self._refuse("cannot be inserted into a text")

    def __contains__(self, item: object) -> bool:
        self._refuse("cannot be searched")


class GraphBuilder:
    """Collects the steps of one pipeline as members of a pipeline document, and the tasks they use."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: dict[str, CallableTask] = {}

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
        return self._step(task, step_id, needs, {"params": _written(params, "params")} if params else {})

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
        if not isinstance(over, Placeholder):
            over = list(over)
        members: dict[str, Any] = {"params": _written(params, "params")} if params else {}
        members["map"] = {"over": _written(over, "map.over"), "as": name}
        return self._step(task, step_id, needs, members)

    def _step(
        self, task: CallableTask, step_id: str | None, needs: Iterable[Any], members: Mapping[str, Any]
    ) -> Placeholder:
        known = {step["id"] for step in self.steps}
        if step_id is not None and step_id in known:
            raise InvalidSpec(f"the pipeline already has a step {step_id!r}")
        if self.tasks.setdefault(task.id, task) is not task:
            raise InvalidSpec(f"two different tasks of this pipeline have the id {task.id!r}")
        named, number = step_id or task.id, 1
        while named in known:
            number += 1
            named = f"{task.id}_{number}"
        before = [_step_of(each, known) for each in needs]
        self.steps.append({"id": named, "task": task.id, "needs": before, **members})
        return Placeholder("steps", (named,), named)


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


def item_parameter(task: CallableTask, given: Iterable[str]) -> str:
    """The parameter that takes the items of a map: the first parameter that is not in `given`."""
    taken = set(given)
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
    if len(args) > len(positional):
        takes = f"takes {len(positional)} arguments by position, {len(args)} were given"
        raise InvalidSpec(f"task {task.id!r} {takes}")
    placed = dict(zip(positional, args, strict=False))
    known = {each.name for each in plan.parameters}
    for name in kwargs:
        if name in placed:
            raise InvalidSpec(f"task {task.id!r} got the argument {name!r} twice")
        if name not in known and not plan.takes_any:
            hint = did_you_mean(name, known, f"it takes {', '.join(sorted(known)) or 'nothing'}")
            raise InvalidSpec(f"task {task.id!r} has no parameter {name!r}", hint=hint)
    return placed


def _step_of(value: Any, known: set[str]) -> str:
    found = value.step_id if isinstance(value, Placeholder) else value
    if not isinstance(found, str):
        raise InvalidSpec(f"needs takes the results of steps, not {value!r}")
    if found not in known:
        raise InvalidSpec(f"needs names {found!r}, which is not an earlier step of this pipeline")
    return found


def _written(value: Any, path: str) -> Any:
    """Convert an argument to its form in a spec: placeholders become references, other texts are escaped."""
    if isinstance(value, Placeholder):
        return value.reference
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {key: _written(each, f"{path}.{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(each, f"{path}[{place}]") for place, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    found = f"is a {type(value).__name__}, which is not JSON"
    raise InvalidSpec(f"{path} {found}", errors=[FieldError(path, found, "not_json")])
