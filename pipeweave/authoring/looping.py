"""Draw the steps that run a pipeline in rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pipeweave.authoring import formulas
from pipeweave.authoring.bodies import DrawnBody
from pipeweave.authoring.pipeline import Pipeline, PipelineWithOptions
from pipeweave.authoring.placeholder import Placeholder
from pipeweave.authoring.written_values import condition_text, constant
from pipeweave.errors import InvalidSpec


class RoundsOfPipeline:
    """Draws a step that runs a pipeline in rounds, until a condition holds: `loop(…)`.

    Example: `loop(ask, data, hint=loop.last["form"], until=lambda out: out["approved"], max_iterations=5)`.
    """

    @property
    def index(self) -> Any:
        """The number of the round, from 0: for the arguments of a loop, and its `until`."""
        return Placeholder(formulas.path("loop", ("index",)))

    @property
    def last(self) -> Any:
        """What the round before gave, null before the first one: for the arguments of a loop."""
        return Placeholder(formulas.path("loop", ("last",)))

    def __call__(
        self,
        pipeline: Pipeline[..., Any] | PipelineWithOptions[..., Any] | DrawnBody[..., Any],
        /,
        *args: Any,
        max_iterations: int,
        until: Callable[[Any], Any] | str | None = None,
        delay: float | str | None = None,
        collect: bool = False,
        **params: Any,
    ) -> Any:
        """Draw a step that runs a pipeline, or a `@body`, in rounds, each in a run of its own.

        Args:
            pipeline: what a round runs; `pipeline.options(…)` for options of the step. A retry is one of a
                round. The steps of a body may use `loop.index` and `loop.last` themselves.
            args: its arguments, made anew for each round: they may hold `loop.index` and `loop.last`.
            max_iterations: the most rounds, 1 to 10,000. A loop with `until` that has used them up fails with
                LOOP_LIMIT.
            until: takes what a round gave, and gives the condition that ends the loop; or an expression as a
                text, in which `last` is what the round gave. None: the loop ends after `max_iterations`.
            delay: the time between two rounds: seconds, or a text such as `30s`, `5m` or `1h`; 0 by default.
            collect: the result is the list of what all rounds gave, in place of what the last one gave.
            params: further arguments, by name.

        Raises:
            InvalidSpec: an argument is invalid, or no pipeline is drawn.
        """
        step = _with_options(pipeline)
        members: dict[str, Any] = {"maxIterations": constant(max_iterations, "max_iterations")}
        if until is not None:
            condition = until(Placeholder(formulas.path("last", ()))) if callable(until) else until
            members["until"] = condition_text(condition, "until")
        if delay is not None:
            members["delay"] = constant(delay, "delay")
        if collect:
            members["collect"] = True
        return step.in_rounds(members, args, params)


def _with_options(pipeline: Any) -> PipelineWithOptions[..., Any] | DrawnBody[..., Any]:
    if isinstance(pipeline, PipelineWithOptions | DrawnBody):
        return pipeline
    if isinstance(pipeline, Pipeline):
        return pipeline.options()
    raise InvalidSpec(
        f"loop() runs a pipeline or a body, and {pipeline!r} is none"[:300],
        hint="put @body, or @pipeline, before a function that makes the calls of a round",
    )


loop: Final = RoundsOfPipeline()
