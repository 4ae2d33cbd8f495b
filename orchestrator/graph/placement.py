"""Gives each element of ordered layers its height, so that links are as level as the order allows (pure).

A layer wishes each element to where its neighbours are. The nearest places that keep the order and the
distances are found by joining elements that would overlap into groups, which go to their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipeweave.orchestrator.domain.step_classes import Neighbours
from pipeweave.orchestrator.graph.layers import Layers

ROUNDS = 4
GAP, LANE_GAP = 16, 10
# How much more a level lane counts than a level link between two boxes.
LANE_WEIGHT = 8.0


def columns_of(row: Sequence[int], heights: Sequence[int], count: int, most: int) -> int:
    """In how many columns a layer's boxes stand side by side.

    Args:
        row: the layer.
        heights: of each element; lanes have none.
        count: how many elements there are; higher numbers are lanes.
        most: boxes in one column.
    """
    tall = [heights[each] for each in row if each < count]
    # Blocks are higher than boxes, and stand alone.
    return max(1, -(-len(tall) // most)) if len(set(tall)) <= 1 else 1


def placed(layers: Layers, heights: Sequence[int], columns: Sequence[int]) -> list[float]:
    """The vertical middle of each element and lane.

    Args:
        layers: in their final order.
        heights: of each element.
        columns: in how many columns each layer stands: that many elements may be beside each other.
    """
    middles = [0.0] * len(layers.layer_of)
    steps = [
        _distances(row, heights, layers.count, wide) for row, wide in zip(layers.rows, columns, strict=True)
    ]
    for row, offsets in zip(layers.rows, steps, strict=True):
        middle = offsets[-1] / 2
        for element, offset in zip(row, offsets, strict=True):
            middles[element] = offset - middle
    for turn in range(2 * ROUNDS):
        is_forward = turn % 2 == 0
        near = layers.before if is_forward else layers.after
        numbers = range(1, len(layers.rows)) if is_forward else range(len(layers.rows) - 2, -1, -1)
        for number in numbers:
            _place(layers.rows[number], steps[number], near, middles, layers.count)
    return middles


def _distances(row: Sequence[int], heights: Sequence[int], count: int, columns: int) -> list[float]:
    """How far below the first element of a layer each one lies at least."""
    offsets, offset = [0.0], 0.0
    for upper, lower in pairwise(row):
        halves = sum(heights[each] / 2 for each in (upper, lower) if each < count)
        gap = GAP if upper < count and lower < count else LANE_GAP
        offset += (halves + gap) / columns
        offsets.append(offset)
    return offsets


def _place(
    row: Sequence[int], offsets: Sequence[float], near: Neighbours, middles: list[float], count: int
) -> None:
    # Groups from above to below: the sum of the wishes times weights, the weights, how many elements.
    sums: list[float] = []
    weights: list[float] = []
    sizes: list[int] = []
    for element, offset in zip(row, offsets, strict=True):
        wish, weight = _wish(element, near, middles, count)
        total, heavy, size = (wish - offset) * weight, weight, 1
        while sums and sums[-1] * heavy > total * weights[-1]:
            total += sums.pop()
            heavy += weights.pop()
            size += sizes.pop()
        sums.append(total)
        weights.append(heavy)
        sizes.append(size)
    at = 0
    for total, heavy, size in zip(sums, weights, sizes, strict=True):
        base = total / heavy
        for each in range(at, at + size):
            middles[row[each]] = base + offsets[each]
        at += size


def _wish(element: int, near: Neighbours, middles: list[float], count: int) -> tuple[float, float]:
    """Where an element should be, and how much that counts."""
    neighbours = near[element]
    if not neighbours:
        return middles[element], 0.2
    if element >= count and neighbours[0] >= count:
        return middles[neighbours[0]], LANE_WEIGHT
    return sum([middles[each] for each in neighbours]) / len(neighbours), float(len(neighbours))
