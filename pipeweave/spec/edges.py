"""Run graph algorithms on edges, given as a mapping from each step to its predecessors.

All functions are pure, linear in steps and edges, and do not recurse.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

Edges = Mapping[str, tuple[str, ...]]


def successors_of(predecessors: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Reverse the edges: map each step to its successors. Unknown predecessors come last."""
    successors: dict[str, list[str]] = {step: [] for step in predecessors}
    for step, needs in predecessors.items():
        for each in needs:
            successors.setdefault(each, []).append(step)
    return {step: tuple(after) for step, after in successors.items()}


def topological_order(predecessors: Edges, successors: Edges) -> tuple[str, ...]:
    """Sort the steps: each after its predecessors, in lexical order among those that could come next.

    Steps on a cycle and steps that follow a cycle are left out.
    """
    waiting = {step: len(needs) for step, needs in predecessors.items()}
    free = [step for step, count in waiting.items() if count == 0]
    heapq.heapify(free)
    order: list[str] = []
    while free:
        step = heapq.heappop(free)
        order.append(step)
        for after in successors[step]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(free, after)
    return tuple(order)


def find_cycles(predecessors: Edges) -> list[tuple[str, ...]]:
    """Find one cycle of each group of connected cycles, as a closed path from its lexically first step.

    Each step that the topological order leaves out has a predecessor that is left out, too. Walking back
    along these predecessors must reach a step a second time. Unknown predecessors are ignored.
    """
    known = {
        step: tuple(each for each in needs if each in predecessors) for step, needs in predecessors.items()
    }
    ordered = set(topological_order(known, successors_of(known)))
    back = {
        step: min(each for each in needs if each not in ordered)
        for step, needs in known.items()
        if step not in ordered
    }
    cycles: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for start in sorted(back):
        path: dict[str, None] = {}
        step = start
        while step not in seen:
            seen.add(step)
            path[step] = None
            step = back[step]
        if step in path:
            passed = list(path)
            cycles.append(_closed(passed[passed.index(step) :]))
    return cycles


def _closed(backwards: list[str]) -> tuple[str, ...]:
    path = backwards[::-1]
    first = path.index(min(path))
    return (*path[first:], *path[:first], path[first])


def parts(predecessors: Edges) -> list[tuple[str, ...]]:
    """Group the steps into parts that no edge connects: the largest part first, each in lexical order."""
    successors = successors_of(predecessors)
    seen: set[str] = set()
    groups: list[tuple[str, ...]] = []
    for start in predecessors:
        if start in seen:
            continue
        seen.add(start)
        part = [start]
        for step in part:  # the loop appends to the list that it walks
            near = {each for each in (*predecessors[step], *successors[step]) if each not in seen}
            seen |= near
            part += near
        groups.append(tuple(sorted(part)))
    return sorted(groups, key=lambda part: (-len(part), part[0]))


def reachable(step: str, edges: Edges) -> frozenset[str]:
    """All steps that can be reached from `step` along the edges; `step` itself only if it is on a cycle."""
    steps: set[str] = set()
    stack = list(edges[step])
    while stack:
        each = stack.pop()
        if each not in steps:
            steps.add(each)
            stack += edges[each]
    return frozenset(steps)
