"""Draw a graph with letters: a line for each box, and lanes for the links between them, as for commits.

What runs apart from the steps follows them, each under a line that says when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pipeweave.ids import ENGINE_TASK_PREFIX

# Beyond so many lanes, the lines name what each box needs.
MOST_LANES = 16
# What of a box's predecessors is named.
NEEDS_SHOWN = 3
_LOOP = f"{ENGINE_TASK_PREFIX}loop"
_TIMES = "\N{MULTIPLICATION SIGN}"
# Which of its four sides a letter leads to: up, down, left, right.
_LETTERS = {
    (1, 1, 0, 0): "│",
    (0, 0, 1, 1): "─",
    (1, 1, 0, 1): "├",
    (1, 1, 1, 0): "┤",
    (0, 1, 1, 1): "┬",
    (1, 0, 1, 1): "┴",
    (1, 1, 1, 1): "┼",
    (0, 1, 0, 1): "╭",
    (0, 1, 1, 0): "╮",
    (1, 0, 0, 1): "╰",
    (1, 0, 1, 0): "╯",
}


@dataclass(slots=True)
class Drawn:
    """A graph to draw: the labels of its elements, and who follows whom."""

    labels: Sequence[str]
    marks: Sequence[str]
    after: Sequence[Sequence[int]]
    before: Sequence[Sequence[int]]


@dataclass(slots=True)
class _Lanes:
    """Where the links that are open lead to: an element for each lane, or None."""

    lanes: list[int | None] = field(default_factory=list)

    def enter(self, element: int) -> int:
        """The lane of an element whose turn it is."""
        if element in self.lanes:
            return self.lanes.index(element)
        return self._free(0)

    def leave(self, at: int, targets: Sequence[int]) -> list[int]:
        """Lead on to its successors: each has one lane, the first that has none goes straight on."""
        self.lanes[at] = None
        for each in targets:
            if each not in self.lanes:
                self.lanes[self._free(at)] = each
        while self.lanes and self.lanes[-1] is None:
            self.lanes.pop()
        return [self.lanes.index(each) for each in targets]

    def _free(self, near: int) -> int:
        """A free lane: this one, else the next to the right, else a new one."""
        for at in chain(range(near, len(self.lanes)), range(near)):
            if self.lanes[at] is None:
                return at
        self.lanes.append(None)
        return len(self.lanes) - 1


def graph_lines(
    document: Mapping[str, Any], width: int = 80, statuses: Mapping[str, str] | None = None
) -> list[str]:
    """The lines of a graph as the API answers it, each at most so wide.

    Args:
        statuses: of the steps of a run, by their ids; None: of no run.
    """
    drawn = _drawn(document, statuses or {})
    apart = {each for frame in document["frames"] for each in frame["elements"]}
    lines = _lines(drawn, [each for each in range(len(drawn.labels)) if each not in apart])
    for frame in document["frames"]:
        lines += ["", f"{frame['title']}:", *(f"  {each}" for each in _lines(drawn, frame["elements"]))]
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def _lines(drawn: Drawn, elements: Sequence[int]) -> list[str]:
    """The lines of elements that no link leads out of."""
    order = _order(drawn, elements)
    return _with_lanes(drawn, order) or [
        f"{drawn.marks[each]} {drawn.labels[each]}{_needs(drawn, each)}" for each in order
    ]


def _drawn(document: Mapping[str, Any], statuses: Mapping[str, str]) -> Drawn:
    boxes, links = document["boxes"], document["links"]
    maps, tasks = set(boxes["maps"]), document["tasks"]
    labels, marks = [], []
    for at, (key, steps) in enumerate(zip(boxes["keys"], boxes["steps"], strict=True)):
        task = tasks[boxes["tasks"][at]]
        name = f"{task} {_TIMES}{len(steps):,}" if len(steps) > 1 else boxes["titles"].get(str(at), key)
        word = boxes["inside"].get(str(at), task.removeprefix(ENGINE_TASK_PREFIX))
        about = f"map of {word}" if at in maps else word if word != name and len(steps) < 2 else ""
        about = f"loop of {word}" if task == _LOOP else about
        status = statuses.get(key, "") if len(steps) == 1 else ""
        labels.append("  ".join(filter(None, (name, status, about))))
        marks.append("◆" if at in maps else "●")
    count = document["junctions"]["count"]
    labels += ["(when all of them are done)"] * count
    marks += ["┿"] * count
    after: list[list[int]] = [[] for _ in labels]
    before: list[list[int]] = [[] for _ in labels]
    for source, target in zip(links["sources"], links["targets"], strict=True):
        after[source].append(target)
        before[target].append(source)
    return Drawn(labels, marks, after, before)


def _order(drawn: Drawn, elements: Sequence[int]) -> list[int]:
    """The elements, each after its predecessors; what was begun is ended first, so that lanes stay few."""
    waiting = {each: len(drawn.before[each]) for each in elements}
    stack = [each for each in reversed(elements) if not waiting[each]]
    order: list[int] = []
    while stack:
        element = stack.pop()
        order.append(element)
        for each in reversed(drawn.after[element]):
            waiting[each] -= 1
            if not waiting[each]:
                stack.append(each)
    return order


def _with_lanes(drawn: Drawn, order: Sequence[int]) -> list[str] | None:
    """The lines with lanes; None: there would be too many of them."""
    lanes = _Lanes()
    lines: list[str] = []
    for element in order:
        at = lanes.enter(element)
        before = [each is not None for each in lanes.lanes]
        row = ["│" if is_open else " " for is_open in before]
        row[at] = drawn.marks[element]
        lines.append(f"{' '.join(row)}  {drawn.labels[element]}")
        targets = lanes.leave(at, drawn.after[element])
        if len(lanes.lanes) > MOST_LANES or len(before) > MOST_LANES:
            return None
        before[at] = False
        if set(targets) - {at}:
            lines.append(_turn(at, targets, before))
    return lines


def _turn(at: int, targets: Sequence[int], before: Sequence[bool]) -> str:
    """The line below an element: from its lane to those of its successors.

    Args:
        before: the lanes that come from above, besides its own.
    """
    left, right = min(at, *targets), max(at, *targets)
    letters: list[str] = []
    for lane in range(max(right + 1, len(before))):
        from_above = lane == at or (lane < len(before) and before[lane])
        goes_on = (lane < len(before) and before[lane]) or lane in targets
        is_within = left <= lane <= right
        sides = (from_above, goes_on, is_within and lane > left, is_within and lane < right)
        letters.append(_LETTERS.get(tuple(map(int, sides)), " "))  # type: ignore[arg-type]
        letters.append("─" if is_within and lane < right else " ")
    return "".join(letters).rstrip()


def _needs(drawn: Drawn, element: int) -> str:
    names = [drawn.labels[each].partition("  ")[0] for each in drawn.before[element]]
    if not names:
        return ""
    more = f" and {len(names) - NEEDS_SHOWN:,} more" if len(names) > NEEDS_SHOWN else ""
    return f"  ← {', '.join(names[:NEEDS_SHOWN])}{more}"
