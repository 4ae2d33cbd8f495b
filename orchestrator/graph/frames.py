"""Draws what a run runs apart from its steps: each in a frame that says when it runs (pure).

These are the bodies and pipelines of maps and loops, of failures, and of the end of the run. They are runs of
their own, so nothing links them with the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice

from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.graph.shapes import TIMES, Box, DrawingFrame, Shape
from pipeweave.spec import (
    Body,
    ChildCall,
    ChildPipeline,
    ErrorRule,
    LoopStep,
    PipelineSpec,
    StepSpec,
    engine_task,
)

# Frames beyond these are not drawn; the list of steps tells all of them.
MOST_FRAMES = 60

# When something runs, where it is in the version, and what it runs.
Apart = tuple[str, str, Body | ChildPipeline]


def with_frames(shape: Shape, steps: Sequence[StepSpec], plan: Plan, draw: Callable[[Plan], Shape]) -> Shape:
    """A shape with the frames of a plan.

    Args:
        shape: of the steps of the plan.
        steps: those that get their frames.
        draw: gives the shape of the steps of a body.
    """
    apart = list(islice(chain(_of_steps(steps), _of_pipeline(plan)), MOST_FRAMES))
    if not apart:
        return shape
    return _together(shape, apart, [_inside(place, runs, draw) for _, place, runs in apart])


def _inside(place: str, runs: Body | ChildPipeline, draw: Callable[[Plan], Shape]) -> Shape:
    if isinstance(runs, Body):
        return draw(compile_plan(PipelineSpec(place, runs.steps)))
    return Shape((Box(place, runs.id, engine_task(runs), False, (), inside=runs.word),), 0, ())


def _together(shape: Shape, apart: Sequence[Apart], insides: Sequence[Shape]) -> Shape:
    """One shape of the steps and of what is in the frames: all boxes first, then all junctions."""
    shapes = [shape, *insides]
    before = [0, *accumulate(len(each.boxes) for each in shapes)]
    junctions = list(accumulate((each.junctions for each in shapes), initial=before[-1]))
    numbers = [
        [*range(before[at], before[at + 1]), *range(junctions[at], junctions[at] + each.junctions)]
        for at, each in enumerate(shapes)
    ]
    return Shape(
        (*shape.boxes, *(_apart(box) for each in insides for box in each.boxes)),
        sum(each.junctions for each in shapes),
        tuple(
            replace(link, source=number[link.source], target=number[link.target])
            for each, number in zip(shapes, numbers, strict=True)
            for link in each.links
        ),
        tuple(
            DrawingFrame(place, title, tuple(number))
            for (title, place, _), number in zip(apart, numbers[1:], strict=True)
        ),
    )


def _apart(box: Box) -> Box:
    """A box without the ordinals of its steps, which are no steps of the plan."""
    several = f"{box.title} {TIMES}{len(box.steps):,}" if len(box.steps) > 1 else box.title
    return replace(box, title=several, steps=())


def _of_steps(steps: Sequence[StepSpec]) -> Iterator[Apart]:
    """What steps run apart; behind each body, what its own steps do."""
    for step in steps:
        if step.own_body is not None:
            place, body = step.own_body
            each = "each round" if isinstance(step.decides, LoopStep) else "each item"
            yield f"{each} of {step.id}", place, body
            yield from _of_steps(body.steps)
        if step.on_error is not None:
            when = f"when {step.id} fails{_still(step.on_error)}"
            yield from _of_call(when, f"{step.id}.onError", step.on_error.call)
        if step.compensate is not None:
            when = f"takes {step.id} back when the run fails"
            yield from _of_call(when, f"{step.id}.compensate", step.compensate)


def _of_pipeline(plan: Plan) -> Iterator[Apart]:
    for at, rule in enumerate(plan.error_rules):
        fits = "" if rule.condition is None else f", if {rule.condition}"
        when = f"when a step fails{_still(rule)}{fits}"
        yield from _of_call(when, f"errorHandlers[{at}]", rule.call)
    if plan.finally_call is not None:
        yield from _of_call("at the end, however it ends", "finally", plan.finally_call)


def _still(rule: ErrorRule) -> str:
    return "" if rule.is_handled else " (and stays failed)"


def _of_call(title: str, place: str, call: ChildCall) -> Iterator[Apart]:
    yield title, place, call.runs
    if isinstance(call.runs, Body):
        yield from _of_steps(call.runs.steps)
