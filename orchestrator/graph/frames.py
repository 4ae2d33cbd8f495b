"""Draws what a run runs apart from its steps: each in a frame that says when it runs (pure).

These are the bodies and pipelines of maps and loops, of failures, and of the end of the run. They are runs of
their own, so nothing links them with the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.graph.shapes import TIMES, Box, DrawingFrame, Link, Shape
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
    for title, place, runs in islice(chain(_of_steps(steps), _of_pipeline(plan)), MOST_FRAMES):
        if isinstance(runs, Body):
            inside = draw(compile_plan(PipelineSpec(place, runs.steps)))
        else:
            inside = Shape((Box(place, runs.id, engine_task(runs), False, (), inside=runs.word),), 0, ())
        shape = _beside(shape, title, place, inside)
    return shape


def _beside(shape: Shape, title: str, place: str, inside: Shape) -> Shape:
    """Both shapes, the second one in a frame."""
    boxes, count, junctions = len(shape.boxes), len(inside.boxes), len(shape.boxes) + shape.junctions

    def first(element: int) -> int:
        return element if element < boxes else element + count

    def second(element: int) -> int:
        return boxes + element if element < count else junctions + element

    return Shape(
        (*shape.boxes, *map(_apart, inside.boxes)),
        shape.junctions + inside.junctions,
        (*_moved(shape.links, first), *_moved(inside.links, second)),
        (
            *(replace(each, elements=tuple(map(first, each.elements))) for each in shape.frames),
            DrawingFrame(place, title, tuple(map(second, range(len(inside))))),
        ),
    )


def _apart(box: Box) -> Box:
    """A box without the ordinals of its steps, which are no steps of the plan."""
    several = f"{box.title} {TIMES}{len(box.steps):,}" if len(box.steps) > 1 else box.title
    return replace(box, title=several, steps=())


def _moved(links: Sequence[Link], to: Callable[[int], int]) -> Iterator[Link]:
    return (replace(each, source=to(each.source), target=to(each.target)) for each in links)


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
