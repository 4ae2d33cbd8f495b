"""Counts how many items of a map ran at a time, in bins of equal width. Pure.

Each start and each end is told as the bin it lies in and how far into it. The average number that ran in a
bin follows from sums over the bins, so no item is looked at here, and an item that began and ended in one
bin counts for its share of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edges:
    """What began and ended in a bin.

    Args:
        bin: its number from 0.
        change: starts minus ends.
        busy: the sum over the starts of the share of the bin that follows, minus that over the ends.
        failed: ends of attempts that ended badly.
    """

    bin: int
    change: int
    busy: float
    failed: int


@dataclass(frozen=True, slots=True)
class Density:
    """By bin: how many ran on average, and how many attempts ended badly."""

    running: tuple[float, ...]
    failed: tuple[int, ...]


def density(edges: Iterable[Edges], bins: int) -> Density:
    """The density of one map from the edges of all its attempts; at most one entry for each bin."""
    by_bin: Mapping[int, Edges] = {each.bin: each for each in edges}
    running: list[float] = []
    failed: list[int] = []
    before = 0
    for number in range(bins):
        here = by_bin.get(number, Edges(number, 0, 0.0, 0))
        # What runs already runs through the whole bin; what begins or ends here, for a part of it.
        running.append(round(max(0.0, before + here.busy), 2))
        failed.append(here.failed)
        before += here.change
    return Density(tuple(running), tuple(failed))
