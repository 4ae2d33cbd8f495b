"""Defines what a drawing of a pipeline's graph is made of, before and after it has places (pure).

Elements are numbered: first the boxes, then the junctions. A link goes from one element to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeweave.ids import ENGINE_TASK_PREFIX

# Sizes in the drawing's own unit: pixels at zoom 1.
BOX_WIDTH, BOX_HEIGHT = 172, 44
JUNCTION_WIDTH, JUNCTION_HEIGHT = 6, 40
# A block shows the members of an open class in columns of 25, at most 400 of them.
MEMBER_WIDTH, MEMBER_HEIGHT, MEMBER_GAP = 132, 22, 6
MEMBERS_IN_COLUMN, MEMBERS_SHOWN = 25, 400
BLOCK_HEAD, BLOCK_PADDING = 28, 10
# A frame has room for what it says above what is in it.
FRAME_HEAD, FRAME_PADDING = 28, 12
# Before the number of steps of a class.
TIMES = "\N{MULTIPLICATION SIGN}"
CHOICE_WORD = "choice"
# The small marks of what the engine decides, as lines in a square of 10.
ICONS: Mapping[str, str] = {
    "transform": "M1 2H5M1 5H9M1 8H5M7 3L9 5L7 7",
    "gather": "M1 1L5 5V9M9 1L5 5",
    "sleep": "M6 1A4.5 4.5 0 1 0 9 7A4.5 4.5 0 0 1 6 1",
    "signal": "M1 9V6M5 9V4M9 9V1",
    "approval": "M7 3A2 2 0 1 1 3 3A2 2 0 1 1 7 3M1 9A4 3 0 0 1 9 9",
    "pipeline": "M1 1H9V9H1ZM3 4H7M3 6H7",
    "loop": "M8 2A4 4 0 1 0 9 6M9 1V4H6",
    "steps": "M1 1H9V9H1ZM3 3H7V7H3Z",
}


@dataclass(frozen=True, slots=True)
class Box:
    """One step, or a class of steps that look the same.

    Args:
        key: names it in addresses: the id of its step, or the key of its class.
        title: what people read: the id of its step, or the task of its class.
        task: the task that its steps run.
        is_map: whether its steps are expanded over lists.
        steps: the ordinals of its steps, sorted; none in a frame, whose steps are those of other runs.
        is_open: whether it is a block that shows its members.
        names: the ids of the members that a block shows.
        inside: what its step runs as a run of its own: a pipeline, or `steps`; of a pipeline in a frame, the
            word `pipeline`; empty for any other box.
    """

    key: str
    title: str
    task: str
    is_map: bool
    steps: tuple[int, ...]
    is_open: bool = False
    names: tuple[str, ...] = ()
    inside: str = ""

    @property
    def engine_word(self) -> str:
        """What the engine decides in place of a task: `choice`, `sleep`; empty for steps of a task."""
        is_engine = self.task.startswith(ENGINE_TASK_PREFIX)
        return self.task.removeprefix(ENGINE_TASK_PREFIX) if is_engine else ""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        if not self.is_open:
            return BOX_WIDTH, BOX_HEIGHT
        shown = min(len(self.steps), MEMBERS_SHOWN)
        rows = min(shown, MEMBERS_IN_COLUMN)
        columns = -(-shown // MEMBERS_IN_COLUMN)
        # One more line says how many members are not shown.
        rest = MEMBER_HEIGHT if len(self.steps) > MEMBERS_SHOWN else 0
        width = 2 * BLOCK_PADDING + columns * (MEMBER_WIDTH + MEMBER_GAP) - MEMBER_GAP
        height = BLOCK_HEAD + BLOCK_PADDING + rows * (MEMBER_HEIGHT + MEMBER_GAP) - MEMBER_GAP + rest
        return max(width, BOX_WIDTH), max(height, BOX_HEIGHT)


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow between two elements.

    Args:
        source: the number of the element where it begins.
        target: the number of the element where it ends.
        label: how the members of two classes belong together: `1:1`, `1:n`, `n:1`, `n:m`; of the link of a
            choice, the case that takes it; else empty.
    """

    source: int
    target: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class DrawingFrame:
    """What runs apart from the steps, as runs of their own: when a step fails, at the end, for each item.

    Args:
        place: where it is in its version, such as `charge.onError`.
        title: when it runs, for people.
        elements: the boxes and junctions in it.
    """

    place: str
    title: str
    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph to draw: boxes, how many junctions follow them, links, and frames for what runs apart."""

    boxes: tuple[Box, ...]
    junctions: int
    links: tuple[Link, ...]
    frames: tuple[DrawingFrame, ...] = ()

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.boxes) + self.junctions

    def size_of(self, element: int) -> tuple[int, int]:
        """Width and height of an element."""
        if element < len(self.boxes):
            return self.boxes[element].size
        return JUNCTION_WIDTH, JUNCTION_HEIGHT


Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a shape lies, from left to right or from the top down.

    Args:
        width: of the whole drawing.
        height: of the whole drawing.
        places: left and top of each element.
        sizes: width and height of each element.
        bends: the points between the two ends of each link. Between two points of the same height the link
            is straight, else a curve that is level at both. From the top down, the same holds of points one
            above the other.
        is_down: whether it goes from the top down.
        frames: left, top, width and height of each frame.
    """

    width: int
    height: int
    places: Sequence[Point]
    sizes: Sequence[Point]
    bends: Sequence[tuple[Point, ...]]
    is_down: bool = False
    frames: Sequence[tuple[int, int, int, int]] = ()
