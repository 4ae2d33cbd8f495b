"""Turns a pipeline into the shape of a drawing: all its steps, or its pattern (pure).

In the pattern, steps of the same task and the same level are one box. Links between such boxes lead only to
higher levels, so the pattern of 1,738 steps may be eight boxes that say more than all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from enum import Enum

from pipeweave.orchestrator.domain.plan import Plan, PlannedStep
from pipeweave.orchestrator.domain.step_classes import SHOWN_SINGLY
from pipeweave.orchestrator.graph.engine_words import case_of, inside
from pipeweave.orchestrator.graph.frames import with_frames
from pipeweave.orchestrator.graph.junctions import with_junctions
from pipeweave.orchestrator.graph.shapes import MEMBERS_SHOWN, Box, Link, Shape


class DrawingView(Enum):
    """What a drawing shows."""

    ALL = "all"
    PATTERN = "pattern"

    @classmethod
    def of(cls, plan: Plan, asked: str | None) -> DrawingView:
        """The view that was asked for; else the one that fits the size of the pipeline."""
        if asked is not None:
            return cls(asked)
        return cls.ALL if len(plan.steps) <= SHOWN_SINGLY else cls.PATTERN


def shape_of(plan: Plan, view: DrawingView, opened: Collection[str] = ()) -> Shape:
    """The shape of a plan, with frames for what runs apart from its steps. Those of classes have none.

    Args:
        plan: of the pipeline's version.
        view: all steps, or the pattern.
        opened: keys of the classes that show their members; others are ignored.
    """
    shape = _of_steps(plan, view, opened)
    singly = [plan[each.steps[0]].step for each in shape.boxes if len(each.steps) == 1]
    return with_frames(shape, singly, plan, lambda body: _of_steps(body, DrawingView.of(body, None), ()))


def _of_steps(plan: Plan, view: DrawingView, opened: Collection[str]) -> Shape:
    return _pattern(plan, opened) if view is DrawingView.PATTERN else _all(plan)


def _all(plan: Plan) -> Shape:
    boxes = tuple(_single(each) for each in plan.steps)
    links = tuple(
        Link(source - 1, each.ordinal - 1, case_of(plan[source], each))
        for each in plan.steps
        for source in each.predecessors
    )
    return Shape(boxes, *with_junctions(len(boxes), links))


def _single(step: PlannedStep) -> Box:
    return Box(step.id, step.id, step.step.task, step.step.has_items, (step.ordinal,), inside=inside(step))


def _pattern(plan: Plan, opened: Collection[str]) -> Shape:
    boxes = tuple(_box(plan, key, steps, opened) for key, steps in plan.classes.items())
    class_of = {step: at for at, box in enumerate(boxes) for step in box.steps}
    links = tuple(_links(plan, boxes, class_of))
    return Shape(boxes, *with_junctions(len(boxes), links))


def _box(plan: Plan, key: str, steps: list[int], opened: Collection[str]) -> Box:
    first = plan[steps[0]]
    if len(steps) == 1:
        return _single(first)
    is_map, is_open = first.step.has_items, key in opened
    names = tuple(plan[each].id for each in steps[:MEMBERS_SHOWN]) if is_open else ()
    return Box(key, first.step.task, first.step.task, is_map, tuple(steps), is_open, names)


def _links(plan: Plan, boxes: tuple[Box, ...], class_of: dict[int, int]) -> Iterator[Link]:
    """A link for each pair of classes with an edge, labelled with how their members belong together."""
    # Of each pair: its edges, the most that leave one member, and the most that enter one.
    edges: Counter[tuple[int, int]] = Counter()
    leaving: Counter[tuple[int, int]] = Counter()
    entering: Counter[tuple[int, int]] = Counter()
    most_leaving: dict[tuple[int, int], int] = {}
    most_entering: dict[tuple[int, int], int] = {}
    for each in plan.steps:
        target = class_of[each.ordinal]
        for before in each.predecessors:
            pair = class_of[before], target
            edges[pair] += 1
            leaving[before, target] += 1
            entering[each.ordinal, pair[0]] += 1
            most_leaving[pair] = max(most_leaving.get(pair, 0), leaving[before, target])
            most_entering[pair] = max(most_entering.get(pair, 0), entering[each.ordinal, pair[0]])
    for source, target in sorted(edges):
        is_wide = len(boxes[source].steps) > 1 or len(boxes[target].steps) > 1
        several = most_entering[source, target] > 1, most_leaving[source, target] > 1
        first, last = boxes[source].steps[0], boxes[target].steps[0]
        yield Link(source, target, _LABELS[several] if is_wide else case_of(plan[first], plan[last]))


# Whether a step needs several of the others, and whether several need the same one.
_LABELS = {(False, False): "1:1", (False, True): "1:n", (True, False): "n:1", (True, True): "n:m"}
