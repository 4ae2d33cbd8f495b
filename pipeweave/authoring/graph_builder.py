"""Drawing a pipeline: while a `@pipeline` function runs, calling a task notes a step instead of running it.

What a call returns stands for the step's later output; it can be taken apart with `[…]` and handed to other
tasks, which makes an edge.
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

_current: ContextVar[Drawing | None] = ContextVar("pipeweave_drawing", default=None)


class DrawnTask(Protocol):
    """What drawing needs to know of a task."""

    @property
    def id(self) -> str: ...
    @property
    def fn(self) -> Any: ...


class Result:
    """A value that will be there when the run gets there: a step's output, the run's input, or a part of
    one.
    """

    def __init__(self, root: str, path: tuple[str | int, ...], step: str | None = None) -> None:
        self._root = root
        self._path = path
        self._step = step

    @property
    def step_id(self) -> str | None:
        """The step it comes from; None for the run's input."""
        return self._step

    @property
    def reference(self) -> str:
        """The `${…}` that stands for it in a spec."""
        return show_path(self._root, self._path)

    def __getitem__(self, key: str | int) -> Result:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise InvalidSpec(f"{self!r} can be taken apart with a name or a number, not with {key!r}")
        return Result(self._root, (*self._path, key), self._step)

    def __repr__(self) -> str:
        return f"<{self.reference}>"

    def _not_yet(self, what: str) -> NoReturn:
        raise InvalidSpec(
            f"{self!r} {what} while the pipeline is drawn: its value is known only when the run gets there",
            hint="hand it to a task, or use .map() to go over a list",
        )

    def __iter__(self) -> Iterator[Any]:
        self._not_yet("cannot be iterated")

    def __len__(self) -> int:
        self._not_yet("has no length")

    def __bool__(self) -> bool:
        self._not_yet("is neither true nor false")

    def __format__(self, spec: str) -> str:
        self._not_yet("cannot be put into a text")

    def __contains__(self, item: object) -> bool:
        self._not_yet("cannot be searched")


class Drawing:
    """The steps drawn so far, as the document that will be parsed."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: dict[str, DrawnTask] = {}

    def call(
        self,
        task: DrawnTask,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
    ) -> Result:
        """Draw a step that runs the task once."""
        params = {**_by_name(task, args, kwargs), **kwargs}
        return self._step(task, step_id, needs, {"params": _written(params, "params")} if params else {})

    def map(
        self,
        task: DrawnTask,
        over: Any,
        name: str | None,
        params: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
    ) -> Result:
        """Draw a step that runs the task once for each item."""
        _by_name(task, (), {**params, **({name: None} if name is not None else {})})
        if not isinstance(over, Result):
            over = list(over)
        members: dict[str, Any] = {"params": _written(params, "params")} if params else {}
        members["map"] = {"over": _written(over, "map.over"), "as": name}
        return self._step(task, step_id, needs, members)

    def _step(
        self, task: DrawnTask, step_id: str | None, needs: Iterable[Any], members: Mapping[str, Any]
    ) -> Result:
        known = {step["id"] for step in self.steps}
        if step_id is not None and step_id in known:
            raise InvalidSpec(f"the pipeline has a step {step_id!r} already")
        if self.tasks.setdefault(task.id, task) is not task:
            raise InvalidSpec(f"two different tasks of this pipeline have the id {task.id!r}")
        named, number = step_id or task.id, 1
        while named in known:
            number += 1
            named = f"{task.id}_{number}"
        before = [_step_of(each, known) for each in needs]
        self.steps.append({"id": named, "task": task.id, "needs": before, **members})
        return Result("steps", (named,), named)


def current() -> Drawing | None:
    """The drawing that calls of tasks belong to, if a pipeline is being drawn here."""
    return _current.get()


@contextmanager
def draw() -> Iterator[Drawing]:
    """Collect the calls of tasks made inside. Pipelines cannot be drawn inside each other."""
    if _current.get() is not None:
        raise InvalidSpec("a pipeline is called inside another one: call its tasks instead")
    drawing = Drawing()
    token = _current.set(drawing)
    try:
        yield drawing
    finally:
        _current.reset(token)


def item_parameter(task: DrawnTask, given: Iterable[str]) -> str:
    """The parameter that takes the items of a map: the first that is not given."""
    taken = set(given)
    for each in call_plan(task.fn).parameters:
        if each.name not in taken:
            return each.name
    raise InvalidSpec(f"task {task.id!r} has no parameter left that could take the items")


def call_here(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a task's plain function, with an empty context where it needs one and was given none."""
    try:
        plan = call_plan(fn)
    except InvalidTask:  # a hint that only a type checker can read: no matter for a plain call
        return fn(*args, **kwargs)
    positional = [each.name for each in plan.parameters if not each.is_keyword_only]
    has_context = plan.context in kwargs or any(isinstance(each, Context) for each in args)
    if plan.context is None or not plan.needs_context or has_context or len(args) > len(positional):
        return fn(*args, **kwargs)
    placed = dict(zip(positional, args, strict=False))
    return fn(**{plan.context: Context()}, **placed, **kwargs)


def _by_name(task: DrawnTask, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The positional arguments by name, as Python would place them; the context is never given."""
    plan = call_plan(task.fn)
    positional = [each.name for each in plan.parameters if not each.is_keyword_only]
    if len(args) > len(positional):
        takes = f"takes {len(positional)} arguments by position, {len(args)} were given"
        raise InvalidSpec(f"task {task.id!r} {takes}")
    placed = dict(zip(positional, args, strict=False))
    known = {each.name for each in plan.parameters}
    for name in kwargs:
        if name in placed:
            raise InvalidSpec(f"task {task.id!r} got {name!r} twice")
        if name not in known and not plan.takes_any:
            hint = did_you_mean(name, known, f"it takes {', '.join(sorted(known)) or 'nothing'}")
            raise InvalidSpec(f"task {task.id!r} has no parameter {name!r}", hint=hint)
    return placed


def _step_of(value: Any, known: set[str]) -> str:
    found = value.step_id if isinstance(value, Result) else value
    if not isinstance(found, str):
        raise InvalidSpec(f"needs takes the results of steps, not {value!r}")
    if found not in known:
        raise InvalidSpec(f"needs names {found!r}, which is not a step drawn before")
    return found


def _written(value: Any, path: str) -> Any:
    """A value as it stands in a spec: results become references, every other text is literal."""
    if isinstance(value, Result):
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
