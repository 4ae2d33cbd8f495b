"""Build a pipeline's steps from the calls of tasks and pipelines in a `@pipeline` function.

While the function runs, each such call adds a step instead of running what is called. It returns a
Placeholder for the step's later output. `placeholder[…]` names a part of that output. Passing a placeholder
to another call makes an edge. Steps that the engine decides (deciding.py, waiting.py) are added the same way;
`with when(…):` opens a branch, which the steps of its block are drawn into (blocks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from pipeweave.authoring import formulas
from pipeweave.authoring.blocks import Blocks
from pipeweave.authoring.call_targets import (
    CallableTask,
    CallTarget,
    item_of_pipeline,
    target_of_pipeline,
    target_of_task,
)
from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.context import Context
from pipeweave.authoring.placeholder import Placeholder, step_of
from pipeweave.authoring.written_values import written
from pipeweave.errors import InvalidSpec, InvalidTask
from pipeweave.spec.rules import FAILS_RUN
from pipeweave.suggestions import did_you_mean

_current: ContextVar[GraphBuilder | None] = ContextVar("pipeweave_graph_builder", default=None)


class GraphBuilder:
    """Collects the steps of one pipeline as members of a pipeline document, and the tasks they use.

    Attributes:
        steps: every step, in the order in which they were drawn, without the blocks around them.
        tasks: the tasks that the steps use, by id.
        pipelines: the pipelines that the steps run, by id.
        blocks: where the steps stand in the document.
        drawn_bodies: what the functions of bodies returned, by the places of the bodies.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: dict[str, CallableTask] = {}
        self.pipelines: dict[str, CallableTask] = {}
        self.blocks = Blocks()
        self.drawn_bodies: dict[str, Any] = {}
        self._ids: set[str] = set()
        # The last number in the ids of the steps of a task, or of the same word.
        self._numbers: dict[str, int] = {}

    def document_steps(self) -> list[dict[str, Any]]:
        """The `steps` of the pipeline's document, once all are drawn."""
        return self.blocks.finished()

    def is_certain_entry(self, step: Mapping[str, Any]) -> bool:
        """Whether a step without params runs in every run, and follows no other one."""
        is_free = not step["needs"] and "condition" not in step
        return is_free and "map" not in step and not self.blocks.may_be_left_out(step["id"])

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
        self._know(self.tasks, task, "tasks of this pipeline")
        members = {"task": task.id, **_params(target_of_task(task), args, kwargs), **(rules or {})}
        return self.add(task.id, members, step_id=step_id, needs=needs)

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
        self._know(self.tasks, task, "tasks of this pipeline")
        target = target_of_task(task)
        if "max_parallel" in params and not target.takes("max_parallel"):
            raise InvalidSpec(
                f"{target.shown} has no parameter 'max_parallel': only maps of pipelines or bodies take it",
                hint="put the call into a function with @body and map that, or give the task a concurrency=",
            )
        item = name if name is not None or not params else target.item_parameter(params)
        members = {"task": task.id, **_mapped(target, task.id, over, name, item, params), **(rules or {})}
        return self.add(task.id, members, step_id=step_id, needs=needs)

    def run(
        self,
        pipeline: CallableTask,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        loop: Mapping[str, Any] | None = None,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> Placeholder:
        """Add a step that runs another pipeline as a run of its own.

        Args:
            loop: what the document has of a loop besides its pipeline; None for a step that runs it once.
            rules: as in `call`.
        """
        self._know(self.pipelines, pipeline, "pipelines that this one runs")
        deed = {"pipeline": pipeline.id}
        members = {**(deed if loop is None else {"loop": {**deed, **loop}}), **(rules or {})}
        members |= _params(target_of_pipeline(pipeline), args, kwargs)
        return self.add(pipeline.id, members, step_id=step_id, needs=needs)

    def run_each(
        self,
        pipeline: CallableTask,
        over: Any,
        name: str | None,
        params: Mapping[str, Any],
        *,
        max_parallel: int | None = None,
        failure: str = FAILS_RUN,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> Placeholder:
        """Add a step that runs another pipeline once for each item of `over`.

        Args:
            max_parallel: how many are open at once; None for the default of a document.
            failure: what a run that failed does.
        """
        self._know(self.pipelines, pipeline, "pipelines that this one runs")
        item = item_of_pipeline(pipeline, name, params)
        mapped = _mapped(target_of_pipeline(pipeline), pipeline.id, over, item, item, params)
        if max_parallel is not None:
            mapped["map"]["maxParallel"] = max_parallel
        if failure != FAILS_RUN:
            mapped["map"]["failure"] = failure
        members = {"pipeline": pipeline.id, **mapped, **(rules or {})}
        return self.add(pipeline.id, members, step_id=step_id, needs=needs)

    def draw_body(
        self,
        word: str,
        kind: Literal["map", "loop"],
        members: Mapping[str, Any],
        draw: Callable[[], Any],
        *,
        step_id: str | None = None,
        needs: Iterable[Any] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> Placeholder:
        """Add a step whose items, or whose rounds, run steps that are drawn inside of it.

        Args:
            word: as in `add`.
            kind: the key of the document that has the steps.
            members: what stands there beside them.
            draw: draws the steps.
            rules: as in `call`.
        """
        steps: list[dict[str, Any]] = []
        made = self.add(
            word, {kind: {**members, "steps": steps}, **(rules or {})}, step_id=step_id, needs=needs
        )
        place = f"{self.steps[-1]['id']}.{kind}"
        with self.blocks.body(steps):
            self.drawn_bodies[place] = draw()
        if not steps:
            raise InvalidSpec(
                f"the body {word!r} draws no step", hint="call a task in it, or use transform(…)"
            )
        return made

    @staticmethod
    def _know(known: dict[str, CallableTask], called: CallableTask, what: str) -> None:
        if known.setdefault(called.id, called) is not called:
            raise InvalidSpec(f"two different {what} have the id {called.id!r}")

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


def _params(target: CallTarget, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a step, as a member of it; none without arguments."""
    params = target.by_name(args, kwargs)
    target.require(params)
    return {"params": written(params, "params")} if params else {}


def _mapped(
    target: CallTarget, id: str, over: Any, name: str | None, item: str | None, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The members `params` and `map` of a step.

    Args:
        id: of what it calls.
        name: the parameter that takes the items, as the document has it.
        item: that parameter itself; None if it is not known, or each item is a whole input.
    """
    target.by_name((), {**params, **({name: None} if name is not None else {})})
    if item is not None:
        target.require(params, item)
    members: dict[str, Any] = {"params": written(params, "params")} if params else {}
    members["map"] = {"over": written_items(id, over), "as": name}
    return members


def written_items(id: str, over: Any) -> Any:
    """The list of a map, as the document has it.

    Args:
        id: of what it calls, for errors.

    Raises:
        InvalidSpec: it is no list.
    """
    return written(_items(id, over), "map.over")


def _items(id: str, over: Any) -> Any:
    if isinstance(over, Placeholder):
        return over
    if not isinstance(over, Iterable) or isinstance(over, str | bytes | Mapping):
        raise InvalidSpec(
            f"{id}.map takes a list, not {over!r}"[:300],
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
        InvalidSpec: a `@pipeline` function asked for the spec of another pipeline.
    """
    if _current.get() is not None:
        raise InvalidSpec(
            "a pipeline cannot be drawn while another one is: call it there, which makes a step"
        )
    builder = GraphBuilder()
    token = _current.set(builder)
    try:
        yield builder
    finally:
        _current.reset(token)


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
