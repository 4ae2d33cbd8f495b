"""Draw what a map or a loop runs inside of the pipeline that it is used in: a body.

A body is drawn once, where it is used. Its function may use whatever is there: results of steps before it,
parameters of the pipeline. What it draws stands in the step of the map, or of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, cast

from pipeweave.authoring import formulas, graph_builder
from pipeweave.authoring.call_targets import CallTarget, target_of_body
from pipeweave.authoring.placeholder import Placeholder, reference_of, step_of
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.rules_of_steps import Join, written_rules
from pipeweave.errors import InvalidSpec
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.reference_syntax import show_path
from pipeweave.spec.rules import FAILS_RUN, ItemFailure

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class DrawnBody(Generic[P, R]):
    """Steps that are written inside of a map or a loop; see `body`.

    Args:
        fn: the function that draws them.
        place: what their step has besides: its id, `needs`, and its rules.
    """

    fn: Callable[P, R]
    place: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Draw the steps where they are called, as a plain function does."""
        return self.fn(*args, **kwargs)

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
        """Run the steps once for each item of a list, each time in a run of its own.

        Example: `one_file.map(list_files(folder), max_parallel=20)`.

        Args:
            over: a step's result, a part of it, a parameter of the pipeline, or a list.
            name: the parameter that takes the item; by default the first that `params` does not supply.
            max_parallel: how many of the runs are open at once, 1 to 1,000; 100 by default.
            failure: what a failed run does: `run`, what the failure mode says; `settle`, the others go on,
                and then the step fails; `partial`, the step completes, with null for it, unless all failed.
            params: further arguments, the same for every item.

        Raises:
            InvalidSpec: an argument is invalid, or what the function returns is not its last step's result.
        """
        target = self._target
        item = (
            name if name is not None or not (target.parameters or params) else target.item_parameter(params)
        )
        builder = graph_builder.current_builder()
        if builder is None:
            call: Callable[..., R] = self.fn
            return [call(**({} if item is None else {item: each}), **params) for each in over]
        taken = {} if item is None else {item: Placeholder(formulas.path("item", ()))}
        arguments = target.by_name((), {**params, **taken})
        target.require(arguments)
        members: dict[str, Any] = {"over": graph_builder.written_items(self.word, over)}
        if max_parallel is not None:
            members["maxParallel"] = max_parallel
        if failure != FAILS_RUN:
            members["failure"] = failure
        step = builder.draw_body(self.word, "map", members, lambda: self._call((), arguments), **self.place)
        return cast("list[R]", step)

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
    ) -> DrawnBody[P, R]:
        """Set options of the step that the next map or loop of it adds.

        Args:
            step_id: the step's id; by default the name of the function, with `_2`, `_3` … if it is taken.
            needs: as of a task's `options`; so are `condition`, `join`, `continue_on_error`, `on_error` and
                `compensate`.
            retry: how often and when the run of a round is repeated after it failed; never by default.

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
        return DrawnBody(self.fn, {"step_id": step_id, "needs": tuple(needs), "rules": rules})

    def in_rounds(self, loop: Mapping[str, Any], args: tuple[Any, ...], params: Mapping[str, Any]) -> Any:
        """Add a step that runs the steps in rounds; see `loop`."""
        builder = graph_builder.open_builder("loop")
        arguments = self._target.by_name(args, params)
        self._target.require(arguments)
        return builder.draw_body(self.word, "loop", loop, lambda: self._call((), arguments), **self.place)

    @property
    def word(self) -> str:
        """The name of the function: what its step is called."""
        return self.fn.__name__

    @property
    def _target(self) -> CallTarget:
        return target_of_body(self.fn)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call: Callable[..., Any] = self.fn
        return call(*args, **kwargs)


def body(fn: Callable[P, R], /) -> DrawnBody[P, R]:
    """Make a function inside of a `@pipeline` function what a map or a loop there runs.

    Unlike a pipeline, it is no pipeline of its own: its steps stand in the step of the map or the loop, and
    it may use results of steps around it. It returns the result of its last step, or nothing.

    Example:
        @pipeline
        def night(folder: str) -> Any:
            day = read_calendar()

            @body
            def one_file(path: str) -> Any:
                return load(extract(path), day)

            return report(one_file.map(list_files(folder), max_parallel=20))
    """
    return DrawnBody(fn)


def check_outputs(spec: PipelineSpec, drawn: Mapping[str, Any]) -> None:
    """Check that the bodies of a pipeline give what their functions return.

    Args:
        drawn: what the function of each body returned, by its place in the pipeline, such as `files.map`.

    Raises:
        InvalidSpec: one returns something else than the result of the step that it ends with.
    """
    for place, returned in drawn.items():
        if returned is None:
            continue
        step_id = step_of(returned) if isinstance(returned, Placeholder) else None
        if step_id is None or reference_of(returned) != show_path("steps", (step_id,)):
            raise InvalidSpec(
                f"the body of {place!r} returns {returned!r}: its output is that of its last step"[:500],
                hint="return the result of that step; transform(…) makes one of others",
            )
        steps = spec.bodies[place].steps if place in spec.bodies else ()
        ends = {each.id for each in steps} - {before for each in steps for before in each.needs}
        if ends != {step_id}:
            others = ", ".join(repr(each) for each in sorted(ends - {step_id}))
            raise InvalidSpec(
                f"the body of {place!r} returns the result of {step_id!r}, but ends with {others}",
                hint="let the step that it returns come last: give it needs=[…], or return nothing",
            )
