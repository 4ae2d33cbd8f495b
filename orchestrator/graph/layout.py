"""Finds a place for everything in a drawing of a graph, from left to right or from the top down (pure).

What goes from the top down is laid out from left to right, lying on its side, and then turned. The same shape
always gets the same layout. Parts that no link connects are laid out by themselves and stand in shelves, the
largest first; frames stand in shelves behind all of them. A layer with very many boxes stands in several
columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeweave.orchestrator.domain import step_classes
from pipeweave.orchestrator.graph import layers as layering
from pipeweave.orchestrator.graph import ordering, placement
from pipeweave.orchestrator.graph.shapes import (
    BOX_HEIGHT,
    BOX_WIDTH,
    FRAME_HEAD,
    FRAME_PADDING,
    Layout,
    Point,
    Shape,
)

MARGIN = 24
LAYER_GAP, COLUMN_GAP, PART_GAP = 56, 12, 40
# A layer beside which many links run gets more room for them.
MOST_LAYER_GAP = 160
# Boxes in one column, at least; a larger graph may have higher columns.
LEAST_IN_COLUMN = 40
# From the top down: boxes beside each other, at least. They are wider than high.
LEAST_IN_ROW = 12
# Width by height that the drawing of a large graph aims at.
ASPECT = 16 / 9
# What a letter above a frame takes, and how wide a frame gets at most for what stands above it.
LETTER_WIDTH, MOST_HEAD_WIDTH = 8, 480


@dataclass(slots=True)
class _Part:
    """A connected part of a shape: its elements and links, and where they lie within it."""

    elements: list[int]
    links: list[int]
    width: float = 0.0
    height: float = 0.0
    left: float = 0.0
    top: float = 0.0


@dataclass(slots=True)
class _Group:
    """Parts that stand together: those of the steps, or of a frame."""

    parts: list[_Part]
    width: float = 0.0
    height: float = 0.0
    left: float = 0.0
    top: float = 0.0


@dataclass(slots=True)
class _Canvas:
    """What is known of a shape's places so far."""

    sizes: list[Point]
    pairs: list[tuple[int, int]]
    levels: list[int]
    places: list[tuple[float, float]]
    bends: list[list[tuple[float, float]]]
    most_in_column: int


def layout(shape: Shape, *, is_down: bool = False) -> Layout:
    """Lay out a shape, from left to right unless it `is_down`."""
    pairs = [(link.source, link.target) for link in shape.links]
    sizes = [shape.size_of(each) for each in range(len(shape))]
    boxes = len(shape.boxes)
    canvas = _Canvas(
        # Boxes lie on their sides meanwhile; junctions will.
        [*map(_turned, sizes[:boxes]), *sizes[boxes:]] if is_down else sizes,
        pairs,
        _levels(shape),
        [(0.0, 0.0)] * len(shape),
        [[] for _ in pairs],
        _most_in_row(len(shape)) if is_down else _most_in_column(len(shape)),
    )
    parts = _parts(len(shape), pairs)
    for part in parts:
        _lay_out(canvas, part)
    groups, width, height = _grouped(shape, parts, is_down=is_down)
    for group in groups:
        _move(canvas, group)
    whole = round(width + 2 * MARGIN), round(height + 2 * MARGIN)
    frames = [
        (*_whole((each.left + MARGIN, each.top + MARGIN)), *_whole((each.width, each.height)))
        for each in groups[1:]
    ]
    places = [_whole(each) for each in canvas.places]
    bends = [_straightened(each) for each in canvas.bends]
    if is_down:
        whole, places = _turned(whole), [_turned(each) for each in places]
        frames = [(y, x, high, wide) for x, y, wide, high in frames]
        sizes[boxes:] = map(_turned, sizes[boxes:])
        bends = [tuple(_turned(point) for point in each) for each in bends]
    return Layout(*whole, places, sizes, bends, is_down, frames)


def _grouped(shape: Shape, parts: Sequence[_Part], *, is_down: bool) -> tuple[list[_Group], float, float]:
    """The steps, and then the frames, with their places; and how wide and high all of them are together."""
    of_frame = {each: at for at, frame in enumerate(shape.frames, 1) for each in frame.elements}
    groups = [_Group([]) for _ in range(len(shape.frames) + 1)]
    for part in parts:
        groups[of_frame.get(part.elements[0], 0)].parts.append(part)
    steps, frames = groups[0], groups[1:]
    steps.width, steps.height = _shelve(steps.parts)
    before, above = (FRAME_HEAD, FRAME_PADDING) if is_down else (FRAME_PADDING, FRAME_HEAD)
    for group, frame in zip(frames, shape.frames, strict=True):
        wide, high = _shelve(group.parts)
        for part in group.parts:
            part.left, part.top = part.left + before, part.top + above
        title = min(MOST_HEAD_WIDTH, LETTER_WIDTH * len(frame.title)) + 2 * FRAME_PADDING
        group.width, group.height = wide + before + FRAME_PADDING, high + above + FRAME_PADDING
        if is_down:
            group.height = max(group.height, title)
        else:
            group.width = max(group.width, title)
    width, height = _shelve(frames, steps.width)
    for group in frames:
        group.top += steps.height + PART_GAP
    return groups, max(steps.width, width), steps.height + (PART_GAP + height if frames else 0)


def _move(canvas: _Canvas, group: _Group) -> None:
    """Put the parts of a group where they belong on the whole drawing."""
    for part in group.parts:
        left, top = group.left + part.left + MARGIN, group.top + part.top + MARGIN
        for element in part.elements:
            x, y = canvas.places[element]
            canvas.places[element] = x + left, y + top
        for at in part.links:
            canvas.bends[at] = [(x + left, y + top) for x, y in canvas.bends[at]]


def _turned(point: Point) -> Point:
    return point[1], point[0]


def _whole(point: tuple[float, float]) -> Point:
    return round(point[0]), round(point[1])


def _straightened(bends: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    """The points without those in the middle of a level line."""
    points: list[Point] = []
    for each in map(_whole, bends):
        if len(points) > 1 and points[-1][1] == points[-2][1] == each[1]:
            points[-1] = each
        else:
            points.append(each)
    return tuple(points)


def _most_in_column(boxes: int) -> int:
    area = boxes * (BOX_WIDTH + LAYER_GAP) * (BOX_HEIGHT + placement.GAP)
    return max(LEAST_IN_COLUMN, round(math.sqrt(area / ASPECT) / (BOX_HEIGHT + placement.GAP)))


def _most_in_row(boxes: int) -> int:
    area = boxes * (BOX_WIDTH + placement.GAP) * (BOX_HEIGHT + LAYER_GAP)
    return max(LEAST_IN_ROW, round(math.sqrt(area * ASPECT) / (BOX_WIDTH + placement.GAP)))


def _levels(shape: Shape) -> list[int]:
    """Boxes at even levels, each junction right before what follows it."""
    boxes = len(shape.boxes)
    through: dict[int, tuple[list[int], list[int]]] = {}
    direct: list[tuple[int, int]] = []
    for link in shape.links:
        if link.target >= boxes:
            through.setdefault(link.target, ([], []))[0].append(link.source)
        elif link.source >= boxes:
            through.setdefault(link.source, ([], []))[1].append(link.target)
        else:
            direct.append((link.source, link.target))
    # All that follow a junction need the same: one of them, and one of those, stand for all.
    for sources, targets in through.values():
        direct += [(source, targets[0]) for source in sources]
        direct += [(sources[0], target) for target in targets[1:]]
    levels = [2 * level for level in step_classes.levels_of(boxes, direct)]
    while _has_raised(levels, through.values()):
        # What follows a box that was raised may have to be raised, too: from left to right, mostly at once.
        for source, target in sorted(direct, key=lambda link: levels[link[0]]):
            levels[target] = max(levels[target], levels[source] + 2)
    return levels + [min(levels[each] for each in through[at][1]) - 1 for at in range(boxes, len(shape))]


def _has_raised(levels: list[int], junctions: Iterable[tuple[list[int], list[int]]]) -> bool:
    """Raise what follows a junction behind all that leads to it, and say whether anything was raised."""
    has_raised = False
    for sources, targets in junctions:
        after = 2 + max(levels[each] for each in sources)
        for each in targets:
            if levels[each] < after:
                levels[each], has_raised = after, True
    return has_raised


def _parts(count: int, pairs: Sequence[tuple[int, int]]) -> list[_Part]:
    """The connected parts, the largest first, else by their first element."""
    root = list(range(count))

    def find(element: int) -> int:
        while root[element] != element:
            root[element] = root[root[element]]
            element = root[element]
        return element

    for source, target in pairs:
        one, other = find(source), find(target)
        root[max(one, other)] = min(one, other)
    parts: dict[int, _Part] = {}
    for element in range(count):
        parts.setdefault(find(element), _Part([], [])).elements.append(element)
    for at, (source, _) in enumerate(pairs):
        parts[find(source)].links.append(at)
    return sorted(parts.values(), key=lambda part: (-len(part.elements), part.elements[0]))


def _lay_out(canvas: _Canvas, part: _Part) -> None:
    """Place the elements of a part, from (0, 0) on."""
    number = {element: at for at, element in enumerate(part.elements)}
    links = [(number[canvas.pairs[at][0]], number[canvas.pairs[at][1]]) for at in part.links]
    layers = layering.layered([canvas.levels[each] for each in part.elements], links)
    ordering.order(layers)
    sizes = [canvas.sizes[each] for each in part.elements]
    heights = [height for _, height in sizes]
    columns = [placement.columns_of(row, heights, layers.count, canvas.most_in_column) for row in layers.rows]
    middles = placement.placed(layers, heights, columns)
    tops = [middle - height / 2 for middle, height in zip(middles, heights, strict=False)]
    highest = min([*tops, *middles[layers.count :]])
    lefts, rights = _spread(layers, sizes, columns)
    part.width = rights[-1]
    part.height = (
        max(
            max(top + height for top, height in zip(tops, heights, strict=True)),
            max(middles[layers.count :], default=highest),
        )
        - highest
    )
    for layer, row in enumerate(layers.rows):
        for at, element in enumerate(each for each in row if each < layers.count):
            wide = sizes[element][0]
            slot = (rights[layer] - lefts[layer] + COLUMN_GAP) / columns[layer]
            x = lefts[layer] + (at % columns[layer]) * slot + (slot - COLUMN_GAP - wide) / 2
            canvas.places[part.elements[element]] = x, tops[element] - highest
    for at, lanes in zip(part.links, layers.lanes, strict=True):
        for lane in lanes:
            layer, y = layers.layer_of[lane], middles[lane] - highest
            canvas.bends[at] += [(lefts[layer], y), (rights[layer], y)]


def _spread(
    layers: layering.Layers, sizes: Sequence[Point], columns: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Left and right of each layer."""
    lefts: list[float] = []
    rights: list[float] = []
    x = 0.0
    for layer, row in enumerate(layers.rows):
        wide = max((sizes[each][0] for each in row if each < layers.count), default=0)
        lefts.append(x)
        rights.append(x + columns[layer] * (wide + COLUMN_GAP) - COLUMN_GAP)
        crowd = sum(len(layers.after[each]) for each in row)
        x = rights[-1] + min(MOST_LAYER_GAP, LAYER_GAP + crowd / 2)
    return lefts, rights


def _shelve(parts: Sequence[_Part] | Sequence[_Group], least: float = 0.0) -> tuple[float, float]:
    """Stand the parts in shelves, from the top left on; returns width and height of them all.

    Args:
        least: how much room each shelf has at least.
    """
    area = sum((part.width + PART_GAP) * (part.height + PART_GAP) for part in parts)
    room = max(max((part.width for part in parts), default=0.0), math.sqrt(area * ASPECT), least)
    x = top = shelf = width = 0.0
    for part in parts:
        if x and x + part.width > room:
            x, top, shelf = 0.0, top + shelf + PART_GAP, 0.0
        part.left, part.top = x, top
        shelf = max(shelf, part.height)
        width = max(width, x + part.width)
        x += part.width + PART_GAP
    return width, top + shelf
