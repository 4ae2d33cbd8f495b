"""Build a pipeline's steps from the task calls of a `@pipeline` function.

While the function runs, each call of a task adds a step instead of running the task. The call returns a
Placeholder for the step's later output. `placeholder[…]` names a part of that output. Passing a placeholder
to another task makes an edge. Steps that the engine decides (deciding.py, waiting.py) are added the same way;
`with when(…):` opens a branch, which the steps of its block are drawn into (blocks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from pipeweave.authoring import formulas
from pipeweave.authoring.blocks import Blocks
from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.context import Context
from pipeweave.authoring.placeholder import Placeholder, step_of
from pipeweave.authoring.written_values import written
from pipeweave.errors import InvalidSpec, InvalidTask
from pipeweave.suggestions import did_you_mean

_current: ContextVar[GraphBuilder | None] = ContextVar("pipeweave_graph_builder", default=None)


class CallableTask(Protocol):
    """The attributes of a task that the builder reads."""

    @property
    def id(self) -> str: ...
    @property
    def fn(self) -> Any: ...


class GraphBuilder:
    """Collects the steps of one pipeline as members of a pipeline document, and the tasks they use.

    Attributes:
        steps: every step, in the order in which they were drawn, without the blocks around them.
        tasks: the tasks that the steps use, by id.
        blocks: where the steps stand in the document.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: dict[str, CallableTask] = {}
        self.blocks = Blocks()
        self._ids: set[str] = set()
        # The last number in the ids of the steps of a task, or of the same word.
        self._numbers: dict[str, int] = {}

    def document_steps(self) -> list[dict[str, Any]]:
        """The `steps` of the pipeline's document, once all are drawn."""
        return self.blocks.finished()

    def is_certain_entry(self, step: Mapping[str, Any]) -> bool:
        """Whether a step without params runs in every run, and follows no other one."""
        is_free = not step["needs"] and "condition" not in step
        return is_free and "map" not in step and not self.blocks.branches_of[step["id"]]

    def call(
        self,
        task: CallableTask,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> Placeholder:
        """Add a step that runs the task once.

        Args:
            rules: further members of the step: `condition`, `retry` and so on.
        """
        params = {**_by_name(task, args, kwargs), **kwargs}
        _require(task, params, None)
        members = {"params": written(params, "params")} if params else {}
        return self._step(task, step_id, needs, {**members, **(rules or {})})

    def map(
        self,
        task: CallableTask,
        over: Any,
        name: str | None,
        params: Mapping[str, Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> Placeholder:
        """Add a step that runs the task once for each item of `over`."""
        _by_name(task, (), {**params, **({name: None} if name is not None else {})})
        if params:
            _require(task, params, name or item_parameter(task, params))
        if not isinstance(over, Placeholder):
            over = _items(task, over)
        members: dict[str, Any] = {"params": written(params, "params")} if params else {}
        members["map"] = {"over": written(over, "map.over"), "as": name}
        return self._step(task, step_id, needs, {**members, **(rules or {})})

    def _step(
        self, task: CallableTask, step_id: str | None, needs: Iterable[Any], members: Mapping[str, Any]
    ) -> Placeholder:
        if self.tasks.setdefault(task.id, task) is not task:
            raise InvalidSpec(f"two different tasks of this pipeline have the id {task.id!r}")
        return self.add(task.id, {"task": task.id, **members}, step_id=step_id, needs=needs)

    def add(
        self, word: str, members: Mapping[str, Any], *, step_id: str | None = None, needs: Iterable[Any] = ()
    ) -> Placeholder:
        """Add a step to the innermost open block.

        Args:
            word: what the step is called if it has no id of its own; `_2`, `_3` … is appended if it must be.
            members: what the document has of it besides `id` and `needs`.
            needs: results or ids of steps that it follows besides those that it refers to.
        """
        before = [_step_of(each, self._ids) for each in needs]
        step = {"id": self.name(word, step_id), "needs": before, **members}
        self.steps.append(step)
        self.blocks.add(step)
        return self.result(step["id"])

    def name(self, word: str, step_id: str | None) -> str:
        """The id of a new step. Raises InvalidSpec if it is taken."""
        if step_id is not None and step_id in self._ids:
            raise InvalidSpec(f"the pipeline already has a step {step_id!r}")
        named, number = step_id or word, self._numbers.get(word, 1)
        while named in self._ids:
            number += 1
            named = f"{word}_{number}"
        self._numbers[word] = number
        self._ids.add(named)
        return named

    @staticmethod
    def result(step_id: str) -> Placeholder:
        """The placeholder for the output of a step."""
        return Placeholder(formulas.path("steps", (step_id,)), step_id)


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


def open_builder(what: str) -> GraphBuilder:
    """The builder of the `@pipeline` function that runs in this context.

    Args:
        what: the name that is used, for the error.

    Raises:
        InvalidSpec: no such function runs.
    """
    builder = _current.get()
    if builder is None:
        raise InvalidSpec(
            f"{what}(…) draws a step, so it can be used in a @pipeline function alone",
            hint="call the pipeline itself, or run it with pipeweave.testing.run_pipeline",
        )
    return builder


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
    step_id: Any = step_of(value) if isinstance(value, Placeholder) else value
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
