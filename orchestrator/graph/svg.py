"""Draws a graph as SVG: a picture in a file, or a part of a page that needs no script (pure).

Colours are attributes, so that a file shows them anywhere; a page's style sheet, which wins over attributes,
has its own for the same classes. There is no `style` in it, which a strict page would not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.graph.shapes import (
    BLOCK_HEAD,
    BLOCK_PADDING,
    CHOICE_WORD,
    FRAME_PADDING,
    ICONS,
    MEMBER_GAP,
    MEMBER_HEIGHT,
    MEMBER_WIDTH,
    MEMBERS_IN_COLUMN,
    MEMBERS_SHOWN,
    TIMES,
    Box,
    Layout,
    Point,
    Shape,
)

PANEL, CANVAS, INK, MUTED = "#FFFFFF", "#F5F6F8", "#1B2028", "#4A5361"
_GREEN, _BLUE, _RED, _AMBER, _VIOLET, _GREY = "#087A54", "#045BEE", "#AB2912", "#B78008", "#632791", "#727C8C"
# Of a map that completed without some of its items: no task run has it.
PARTIAL = "partial"
# Status -> its colour and its mark, in the order of what one looks for first.
LOOKS: Mapping[str, tuple[str, str]] = {
    TaskStatus.FAILED.value: (_RED, "✗"),
    TaskStatus.TIMEOUT.value: (_RED, "✗"),
    PARTIAL: (_RED, "◐"),
    TaskStatus.RUNNING.value: (_BLUE, "▶"),
    TaskStatus.WAITING.value: (_VIOLET, "◇"),
    TaskStatus.QUEUED.value: (_AMBER, "◔"),
    TaskStatus.READY.value: (_AMBER, "◔"),
    TaskStatus.PENDING.value: (_GREY, "○"),
    TaskStatus.CANCELLED.value: (_GREY, "⊘"),
    TaskStatus.SKIPPED.value: (_GREY, "⊘"),
    TaskStatus.COMPLETED.value: (_GREEN, "●"),
}
# Boxes beyond which a page without script shows a smaller drawing, or none.
MOST_IN_PAGE = 400
# On a step whose code has changed.
CHANGED = "Δ"
# The mean width of a character, in parts of its size.
_WIDTH = 0.58
# How much wider bold text is.
_BOLD = 1.14

Statuses = Mapping[int, str]
_HOURGLASS = "M-5 -7H5M-5 7H5M-4 -7C-4 -2 4 2 4 7M4 -7C4 -2 -4 2 -4 7"


@dataclass(frozen=True, slots=True)
class RunMarks:
    """What is known of the steps of a run; see `svg`."""

    statuses: Statuses | None
    failed: Mapping[int, int]
    changed: Collection[int]
    left: Mapping[int, str]


def svg(
    shape: Shape,
    layout: Layout,
    *,
    title: str,
    statuses: Statuses | None = None,
    failed: Mapping[int, int] | None = None,
    href: Callable[[Box], str] | None = None,
    changed: Collection[int] = (),
    left: Mapping[int, str] | None = None,
) -> str:
    """Draw a graph.

    Args:
        shape: what is drawn.
        layout: where it lies.
        title: what a reader who cannot see it is told.
        statuses: ordinal of a step -> its status in a run; None: of no run.
        failed: ordinal of a map -> how many of its items failed.
        href: the address of a box; None: boxes lead nowhere, as those in frames never do.
        changed: the ordinals of the steps whose code has changed, which get a mark.
        left: ordinal of a step that waits -> how long it may wait yet, in words.
    """
    known = RunMarks(statuses, failed or {}, changed, left or {})
    # What has links in it is no image for those who hear it.
    role = "img" if href is None else "group"
    size = f'viewBox="0 0 {layout.width} {layout.height}" width="{layout.width}" height="{layout.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph-drawing" role="{role}" {size}'
        f' font-family="system-ui, sans-serif"><title>{escape(title)}</title>',
        f'<rect class="graph-ground" width="100%" height="100%" fill="{CANVAS}"/>',
        *_frames(shape, layout),
        f'<g class="graph-links" fill="none" stroke="{MUTED}" stroke-opacity="0.55">',
        *(_link(shape, layout, at, statuses) for at in range(len(shape.links))),
        "</g>",
        *_labels(shape, layout),
        *_junctions(shape, layout),
    ]
    for at, box in enumerate(shape.boxes):
        drawn = "".join(_box(box, layout.places[at], layout.sizes[at], known))
        parts.append(f"<a href={quoteattr(href(box))}>{drawn}</a>" if href and box.steps else drawn)
    return "\n".join([*parts, "</svg>"])


def lead(box: Box, statuses: Statuses | None) -> str | None:
    """The one status that a box shows: of several steps, what one looks for first."""
    if statuses is None or not box.steps:
        return None
    step_statuses = {statuses.get(each, TaskStatus.PENDING.value) for each in box.steps}
    return next(each for each in LOOKS if each in step_statuses)


def _ends(layout: Layout, source: int, target: int) -> tuple[Point, Point]:
    (x, y), (width, height) = layout.places[source], layout.sizes[source]
    left, top = layout.places[target]
    if layout.is_down:
        return (x + width // 2, y + height), (left + layout.sizes[target][0] // 2, top)
    return (x + width, y + height // 2), (left, top + layout.sizes[target][1] // 2)


def _is_skipped(shape: Shape, element: int, statuses: Statuses | None) -> bool:
    """Whether a box has only steps that were skipped: a branch that was not taken."""
    if statuses is None or element >= len(shape.boxes):
        return False
    steps = shape.boxes[element].steps
    return bool(steps) and all(statuses.get(each) == TaskStatus.SKIPPED for each in steps)


def _link(shape: Shape, layout: Layout, at: int, statuses: Statuses | None) -> str:
    link = shape.links[at]
    is_pale = any(_is_skipped(shape, each, statuses) for each in (link.source, link.target))
    pale = ' stroke-dasharray="4 3" stroke-opacity="0.35"' if is_pale else ""
    faint = ' fill-opacity="0.35"' if is_pale else ""
    start, end = _ends(layout, link.source, link.target)
    drawn = [f"M{start[0]} {start[1]}"]
    for one, other in pairwise([start, *layout.bends[at], end]):
        drawn.append((_down if layout.is_down else _right)(one, other))
    path = f'<path d="{"".join(drawn)}"{pale}/>'
    if link.target >= len(shape.boxes):
        return path
    x, y = end
    head = "l-3.5 -7h7z" if layout.is_down else "l-7 -3.5v7z"
    return f'{path}<path d="M{x} {y}{head}" fill="{MUTED}" stroke="none"{faint}/>'


def _right(start: Point, end: Point) -> str:
    (x, y), (right, low) = start, end
    middle = max(16, abs(right - x) // 2)
    return f"H{right}" if low == y else f"C{x + middle} {y} {right - middle} {low} {right} {low}"


def _down(start: Point, end: Point) -> str:
    (x, y), (right, low) = start, end
    middle = max(16, abs(low - y) // 2)
    return f"V{low}" if right == x else f"C{x} {y + middle} {right} {low - middle} {right} {low}"


def _labels(shape: Shape, layout: Layout) -> Iterator[str]:
    for link, bends in zip(shape.links, layout.bends, strict=True):
        if link.label:
            start, end = _ends(layout, link.source, link.target)
            left, top = bends[-1] if bends else start
            x, y = (left + end[0]) // 2, (top + end[1]) // 2
            half = max(14, round(_WIDTH * 5.5 * len(link.label)) + 4)
            yield _rect("graph-ground", (x - half, y - 8), (2 * half, 16), CANVAS)
            yield _text(x, y + 4, link.label, 11, MUTED, "graph-muted", anchor="middle")


def _frames(shape: Shape, layout: Layout) -> Iterator[str]:
    for frame, (x, y, wide, high) in zip(shape.frames, layout.frames, strict=True):
        dashed = f' rx="8" stroke="{MUTED}" stroke-opacity="0.6" stroke-dasharray="3 3"'
        yield _rect("graph-apart", (x, y), (wide, high), CANVAS, dashed)
        title = _fitted(frame.title, wide - 2 * FRAME_PADDING, 12)
        yield _text(x + FRAME_PADDING, y + 19, title, 12, MUTED, "graph-muted")


def _junctions(shape: Shape, layout: Layout) -> Iterator[str]:
    for at in range(len(shape.boxes), len(shape)):
        yield _rect("graph-junction", layout.places[at], layout.sizes[at], INK)


def _box(box: Box, place: Point, size: Point, known: RunMarks) -> Iterator[str]:
    statuses = known.statuses
    if box.is_open:
        yield from _block(box, place, size, statuses)
        return
    (x, y), (width, height) = place, size
    status = lead(box, statuses)
    if box.engine_word == CHOICE_WORD:
        yield from _rhombus(box, place, size, status)
        return
    if len(box.steps) > 1:
        yield _frame(x + 5, y + 4, width, height, None)
    yield _frame(x, y, width, height, status)
    if box.inside:
        yield _frame(x + 3, y + 3, width - 6, height - 6, status)
    indent = 10
    if status is not None:
        yield _mark(x + 10, y + 20, status, 14)
        indent = 28
    more = f" {TIMES}{len(box.steps):,}" if len(box.steps) > 1 else ""
    name = _fitted(box.title, (width - indent - 10) / _BOLD, 13, more)
    yield _text(x + indent, y + 19, name, 13, *_ink(status), weight=600)
    yield from _below(box, place, size, known)
    if statuses is not None and len(box.steps) > 1:
        yield from _bar(box, place, size, statuses)


def _below(box: Box, place: Point, size: Point, known: RunMarks) -> Iterator[str]:
    """The second line: the task, or what the engine decides with its small mark; and figures on the right."""
    (x, y), (width, _) = place, size
    count = sum(known.failed.get(each, 0) for each in box.steps)
    lost = f"{count:,} failed" if count else ""
    is_changed = not set(box.steps).isdisjoint(known.changed)
    left = known.left.get(box.steps[0], "") if len(box.steps) == 1 else ""
    right = " ".join(filter(None, (CHANGED if is_changed else "", _done(box, known.statuses), lost, left)))
    word, indent = box.inside or box.engine_word or box.task, 10
    words = f"map of {word}" if box.is_map else word
    if icon := ICONS.get(box.engine_word):
        yield _lines(icon, x + 10, y + 26, MUTED, "graph-icon", 1.4)
        indent = 26
    room = width - indent - 10 - _WIDTH * 11 * (len(right) + 2)
    yield _text(x + indent, y + 35, _fitted(words, room, 11), 11, MUTED, "graph-muted")
    if right:
        colour, kind = (_RED, "graph-mark s-failed") if lost else (MUTED, "graph-muted")
        yield _text(x + width - 10, y + 35, right, 11, colour, kind, anchor="end")


def _rhombus(box: Box, place: Point, size: Point, status: str | None) -> Iterator[str]:
    """A choice: its name, and nothing below, for which there is no room."""
    (x, y), (width, height) = place, size
    middle, low = x + width / 2, y + height / 2
    outline = f"M{x} {low}L{middle} {y}L{x + width} {low}L{middle} {y + height}Z"
    named = f"graph-box s-{status}" if status else "graph-box"
    yield f'<path class="{named}" d="{outline}" fill="{PANEL}"{_edge(status)}/>'
    more = f" {TIMES}{len(box.steps):,}" if len(box.steps) > 1 else ""
    name = _fitted(box.title, (width - 84) / _BOLD, 13, more)
    indent = 9 if status else 0
    if status is not None:
        yield _mark(middle - _WIDTH * _BOLD * 6.5 * len(name) - 10, low + 5, status, 14)
    yield _text(middle + indent, low + 4, name, 13, *_ink(status), anchor="middle", weight=600)


def _ink(status: str | None) -> tuple[str, str]:
    """The colour and the class of a name: pale if the step was skipped."""
    return (MUTED, "graph-muted") if status == TaskStatus.SKIPPED else (INK, "graph-ink")


def _done(box: Box, statuses: Statuses | None) -> str:
    if statuses is None or len(box.steps) < 2:
        return ""
    open_ones = ("pending", "ready", "queued", "running", "waiting")
    done = sum(statuses.get(each, "pending") not in open_ones for each in box.steps)
    return f"{done:,} / {len(box.steps):,}"


def _bar(box: Box, place: Point, size: Point, statuses: Statuses) -> Iterator[str]:
    """How many members have which status, as a stacked bar at the foot of the box."""
    counts = Counter(statuses.get(each, "pending") for each in box.steps)
    x, y = place[0] + 10.0, place[1] + size[1] - 5
    for status in reversed(list(LOOKS)):
        wide = (size[0] - 20) * counts[status] / len(box.steps)
        if wide:
            yield _rect(f"f-{status}", (round(x, 1), y), (round(wide, 1), 3), LOOKS[status][0])
            x += wide


def _block(box: Box, place: Point, size: Point, statuses: Statuses | None) -> Iterator[str]:
    x, y = place
    yield _rect("graph-block", place, size, CANVAS, f' rx="6" stroke="{MUTED}"')
    yield _text(x + 10, y + 19, f"{box.title} {TIMES}{len(box.steps):,}", 13, INK, "graph-ink", weight=600)
    shown = box.steps[:MEMBERS_SHOWN]
    for at, ordinal in enumerate(shown):
        column, row = divmod(at, MEMBERS_IN_COLUMN)
        left = x + BLOCK_PADDING + column * (MEMBER_WIDTH + MEMBER_GAP)
        top = y + BLOCK_HEAD + row * (MEMBER_HEIGHT + MEMBER_GAP)
        status = None if statuses is None else statuses.get(ordinal, "pending")
        yield _frame(left, top, MEMBER_WIDTH, MEMBER_HEIGHT, status)
        yield _mark(left + 6, top + 15, status or "pending", 11)
        name = box.names[at] if at < len(box.names) else str(ordinal)
        yield _text(left + 21, top + 15, _fitted(name, MEMBER_WIDTH - 26, 12), 12, INK, "graph-ink")
    if rest := len(box.steps) - len(shown):
        yield _text(x + 10, y + size[1] - 10, f"and {rest:,} more", 12, MUTED, "graph-muted")


def _frame(x: int, y: int, width: int, height: int, status: str | None) -> str:
    named = f"graph-box s-{status}" if status else "graph-box"
    return _rect(named, (x, y), (width, height), PANEL, f' rx="6"{_edge(status)}')


def _edge(status: str | None) -> str:
    """The line around a box: strong around what failed, dashed around what was skipped."""
    colour = MUTED if status in (None, "pending") else LOOKS[status or "pending"][0]
    strong = ' stroke-width="2"' if status in ("failed", "timeout") else ""
    dashed = ' stroke-dasharray="4 3"' if status == "skipped" else ""
    return f' stroke="{colour}"{strong}{dashed}'


def _mark(x: float, y: float, status: str, size: int) -> str:
    colour, mark = LOOKS[status]
    if status == TaskStatus.WAITING:
        return _lines(
            _HOURGLASS, x + size / 2, y - size * 0.35, colour, f"graph-icon s-{status}", 2, size / 18
        )
    return _text(x, y, mark, size, colour, f"graph-mark s-{status}")


def _lines(path: str, x: float, y: float, colour: str, named: str, wide: float, scale: float = 1.0) -> str:
    where = f"translate({x:.1f} {y:.1f})" + ("" if scale == 1.0 else f" scale({scale:.2f})")
    paint = f'fill="none" stroke="{colour}" stroke-width="{wide}"'
    return f'<path class="{named}" transform="{where}" d="{path}" {paint}/>'


def _rect(
    named: str, place: tuple[float, float], size: tuple[float, float], colour: str, more: str = ""
) -> str:
    where = f'x="{place[0]}" y="{place[1]}" width="{size[0]}" height="{size[1]}"'
    return f'<rect class="{named}" {where} fill="{colour}"{more}/>'


def _text(
    x: float, y: float, text: str, size: int, colour: str, named: str, *, anchor: str = "", weight: int = 0
) -> str:
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' font-weight="{weight}"' if weight else "")
    where = f'x="{x}" y="{y}" font-size="{size}"'
    return f'<text class="{named}" {where} fill="{colour}"{more}>{escape(text)}</text>'


def _fitted(text: str, width: float, size: int, more: str = "") -> str:
    """A text cut so that it is about as wide as there is room, with something behind it that is not cut."""
    most = max(3, int(width / (_WIDTH * size)) - len(more))
    return (text if len(text) <= most else f"{text[: most - 1]}…") + more
