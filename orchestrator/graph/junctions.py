"""Draws «all of these, then all of those» as one bar, where it would be very many links (pure).

Steps that need the same three steps or more, and are three or more, get a junction before them: 100 steps
after 100 others are then 200 links and not 10,000. Only the drawing has junctions; the pipeline keeps its
edges.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.graph.shapes import Link

# The least number of steps on each side of a junction.
LEAST = 3


def with_junctions(boxes: int, links: Sequence[Link]) -> tuple[int, tuple[Link, ...]]:
    """The number of junctions, and the links with them. Links with labels stay as they are.

    Args:
        boxes: how many there are; junctions have the numbers after them.
        links: between boxes.
    """
    needs: dict[int, list[int]] = {}
    for link in links:
        if not link.label:
            needs.setdefault(link.target, []).append(link.source)
    together: dict[tuple[int, ...], list[int]] = {}
    for target, predecessors in needs.items():
        if len(predecessors) >= LEAST:
            together.setdefault(tuple(sorted(predecessors)), []).append(target)
    joined = [(sources, targets) for sources, targets in together.items() if len(targets) >= LEAST]
    gone = {target for _, targets in joined for target in targets}
    kept = [link for link in links if link.label or link.target not in gone]
    for at, (sources, targets) in enumerate(joined, start=boxes):
        kept += [Link(each, at) for each in sources]
        kept += [Link(at, each) for each in sorted(targets)]
    return len(joined), tuple(kept)
