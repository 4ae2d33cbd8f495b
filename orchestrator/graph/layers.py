"""Puts the elements of a graph into layers from left to right, and long links onto lanes between (pure).

A link over several layers passes each layer between at a place of its own, a lane, which the order of the
layer takes into account. The long links of one element share their lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeweave.orchestrator.domain.step_classes import Neighbours

# Lanes beyond this are not worth their time: the longest links are then drawn as one curve.
MOST_LANES = 60_000


@dataclass(slots=True)
class Layers:
    """Elements and lanes by layer; links lead only to the next layer.

    Attributes:
        rows: the elements of each layer; lanes have the numbers after the elements.
        layer_of: the layer of each element and lane.
        before: the neighbours of each in the layer before.
        after: the neighbours of each in the layer after.
        lanes: for each link the lanes that it passes, from left to right.
        count: how many elements there are; higher numbers are lanes.
    """

    rows: list[list[int]]
    layer_of: list[int]
    before: Neighbours
    after: Neighbours
    lanes: list[tuple[int, ...]]
    count: int


def layered(levels: Sequence[int], links: Sequence[tuple[int, int]]) -> Layers:
    """The layers of elements with these levels.

    Args:
        levels: of each element; numbers that no element has make no layer.
        links: source and target of each; the target has the higher level.
    """
    numbers = {level: at for at, level in enumerate(sorted(set(levels)))}
    layer_of = [numbers[level] for level in levels]
    count = len(levels)
    layers = Layers([[] for _ in numbers], layer_of, [], [], [()] * len(links), count)
    layers.before, layers.after = [[] for _ in range(count)], [[] for _ in range(count)]
    chains: dict[int, list[int]] = {}
    # Short links first: what is left out is what would cost most.
    for at in sorted(range(len(links)), key=lambda at: layer_of[links[at][1]] - layer_of[links[at][0]]):
        source, target = links[at]
        chain = chains.setdefault(source, [])
        needed = layer_of[target] - layer_of[source] - 1
        if len(layer_of) - count + needed - len(chain) > MOST_LANES:
            continue
        _prolong(layers, source, chain, needed)
        layers.lanes[at] = tuple(chain[:needed])
        _join(layers, chain[needed - 1] if needed else source, target)
    for element, layer in enumerate(layer_of):
        layers.rows[layer].append(element)
    return layers


def _prolong(layers: Layers, source: int, chain: list[int], needed: int) -> None:
    while len(chain) < needed:
        last = chain[-1] if chain else source
        lane = len(layers.layer_of)
        layers.layer_of.append(layers.layer_of[last] + 1)
        layers.before.append([])
        layers.after.append([])
        _join(layers, last, lane)
        chain.append(lane)


def _join(layers: Layers, left: int, right: int) -> None:
    layers.after[left].append(right)
    layers.before[right].append(left)
