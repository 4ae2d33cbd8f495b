"""Orders the elements of each layer so that few links cross (pure).

Each layer in turn is sorted by the mean place of its neighbours, to the right and back again. Small graphs
keep the best order that was seen, and neighbours that are better swapped are swapped.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from pipeweave.orchestrator.domain.step_classes import Neighbours
from pipeweave.orchestrator.graph.layers import Layers

SWEEPS = 6
# Beyond this many elements and lanes, the crossings are not counted.
COUNTED = 1_500
# Beyond this many, neighbours are not swapped.
SWAPPED = 400


def order(layers: Layers) -> None:
    """Sort `layers.rows` in place. Equal layers get equal orders, whatever came before."""
    place = [0] * len(layers.layer_of)
    _number(layers.rows, place)
    is_counted = len(place) <= COUNTED
    best = (crossings(layers, place), [list(row) for row in layers.rows]) if is_counted else None
    for sweep in range(SWEEPS):
        _sweep(layers, place, is_forward=sweep % 2 == 0)
        if len(place) <= SWAPPED:
            _swap(layers, place)
        if best is not None and (count := crossings(layers, place)) < best[0]:
            best = count, [list(row) for row in layers.rows]
    if best is not None:
        layers.rows = best[1]


def crossings(layers: Layers, place: list[int]) -> int:
    """How many pairs of links cross."""
    total = 0
    for row in layers.rows:
        ends: list[int] = []
        for element in row:
            targets = sorted(place[each] for each in layers.after[element])
            total += sum(len(ends) - bisect_left(ends, each + 1) for each in targets)
            for each in targets:
                insort(ends, each)
    return total


def _number(rows: list[list[int]], place: list[int]) -> None:
    for row in rows:
        for at, element in enumerate(row):
            place[element] = at


def _sweep(layers: Layers, place: list[int], *, is_forward: bool) -> None:
    rows = layers.rows
    numbers = range(1, len(rows)) if is_forward else range(len(rows) - 2, -1, -1)
    near = layers.before if is_forward else layers.after
    for number in numbers:
        row = rows[number]
        other = rows[number - 1 if is_forward else number + 1]
        scale = len(other) / len(row)
        means = {each: _mean(near, place, each, scale) for each in row}
        row.sort(key=lambda each: (means[each], place[each]))
        for at, element in enumerate(row):
            place[element] = at


def _mean(near: Neighbours, place: list[int], element: int, scale: float) -> float:
    neighbours = near[element]
    if not neighbours:
        return place[element] * scale
    return sum([place[each] for each in neighbours]) / len(neighbours)


def _swap(layers: Layers, place: list[int]) -> None:
    for row in layers.rows:
        for at in range(len(row) - 1):
            left, right = row[at], row[at + 1]
            now = _pairs(layers, place, left, right)
            if now and _pairs(layers, place, right, left) < now:
                row[at], row[at + 1] = right, left
                place[left], place[right] = at + 1, at


def _pairs(layers: Layers, place: list[int], upper: int, lower: int) -> int:
    """How many links of two neighbours of a layer cross while `upper` is above `lower`."""
    return sum(
        place[a] > place[b]
        for near in (layers.before, layers.after)
        for a in near[upper]
        for b in near[lower]
    )
