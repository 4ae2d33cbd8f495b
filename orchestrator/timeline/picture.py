"""Draws the timeline of a run as a picture: SVG that stands alone, or takes its colours from a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pipeweave.orchestrator.timeline.spans import PhaseKind
from pipeweave.orchestrator.timeline.words import WORDS, took

Step = Mapping[str, Any]

# Pixels: the row of a step, its bar, the names on the left, the axis above, the legend below.
ROW, BAR, AXIS, LEGEND, LEGEND_LINE = 22, 12, 26, 14, 18
NAMES, LETTER = 190, 7.2
# Steps that a picture shows.
STEPS_DRAWN = 400
# What is drawn as lines on its colour: a wait that is no work of anybody.
_HATCHED = frozenset({PhaseKind.TASK_LIMIT, PhaseKind.TENANT_LIMIT, PhaseKind.PAUSE, PhaseKind.SAME_KEY})
# The colours of a picture that stands alone, by class: those of the dashboard on white.
_COLOURS = {
    "f-completed": "#087a54",
    "f-running": "#045bee",
    "f-failed": "#ab2912",
    "f-queued": "#b78008",
    "f-waiting": "#632791",
    "f-pending": "#727c8c",
}
_INK, _MUTED, _LINE, _PAPER = "#1b2028", "#4a5361", "#d9dde3", "#ffffff"


def svg(timeline: Mapping[str, Any], *, title: str, width: int = 1_200, is_page: bool = False) -> str:
    """The picture of a timeline as `GET /api/runs/{id}/timeline` answers it.

    Args:
        title: says what it shows.
        width: pixels.
        is_page: it becomes a part of a page, whose styles give the colours.
    """
    steps: Sequence[Step] = timeline["steps"][:STEPS_DRAWN]
    drawing = _Drawing(width, max(float(timeline["totalMs"]), 0.001), is_page)
    named = _placed_kinds(steps, width)
    bottom = AXIS + ROW * len(steps)
    height = bottom + LEGEND + LEGEND_LINE * (1 + max((line for _, _, line in named), default=0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' class="timeline-picture" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        _PATTERNS,
    ]
    if not is_page:
        parts.append(f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>')
    parts += drawing.axis(bottom)
    for place, step in enumerate(steps):
        parts += drawing.row(step, AXIS + place * ROW)
    parts += drawing.legend(named, bottom + LEGEND + 8)
    return "".join([*parts, "</svg>"])


_PATTERNS = (
    '<defs><pattern id="timeline-hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect width="3" height="6" fill="#fff" fill-opacity="0.62"/></pattern>'
    '<pattern id="timeline-dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect x="3" width="3" height="6" fill="#fff" fill-opacity="0.8"/></pattern></defs>'
)


class _Drawing:
    """Draws rows on one scale of time."""

    def __init__(self, width: int, total_ms: float, is_page: bool) -> None:
        self._total_ms = total_ms
        self._room = width - NAMES - 16
        self._is_page = is_page

    def axis(self, bottom: int) -> Iterator[str]:
        """Lines at round times."""
        step = _round_step(self._total_ms / 6)
        at = 0.0
        while at <= self._total_ms:
            x = self._x(at)
            paint = self._paint("t-line", _LINE, "stroke")
            yield f'<path d="M{x:.1f} {AXIS - 6}V{bottom}" {paint} fill="none"/>'
            yield self._text(x + 3, AXIS - 9, _at(at), "t-muted", _MUTED)
            at += step

    def row(self, step: Step, top: int) -> Iterator[str]:
        """The name of a step and its bars; a step of the critical path has an outline."""
        yield "<g>"
        yield f"<title>{escape(_in_words(step))}</title>"
        yield self._text(8, top + 15, _cut(step["stepId"]), "t-ink", _INK)
        y = top + (ROW - BAR) / 2
        for bar in step["bars"]:
            yield from self._bar(bar, step, y)
        if step["lane"] is not None:
            yield from self._lane(step["lane"], step["status"], top)
        if step["isCritical"] and step["bars"]:
            x, end = self._x(step["bars"][0]["fromMs"]), self._x(step["bars"][-1]["toMs"])
            yield (
                f'<rect x="{x - 1.5:.1f}" y="{y - 1.5:.1f}" width="{max(end - x, 1.5) + 3:.1f}"'
                f' height="{BAR + 3}" rx="2" {self._paint("t-critical", _INK, "stroke")} fill="none"/>'
            )
        yield "</g>"

    def _bar(self, bar: Mapping[str, Any], step: Step, y: float) -> Iterator[str]:
        kind = PhaseKind(bar["kind"])
        if kind is PhaseKind.ITEMS and step["lane"] is not None:
            return
        x = self._x(bar["fromMs"])
        width = max(self._x(bar["toMs"]) - x, 1.0)
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}"'
        colour = colour_of(kind, step["status"])
        pale = ' fill-opacity="0.45"' if kind in (PhaseKind.QUEUE, PhaseKind.ITEMS) else ""
        yield f"<rect {box}{pale} {self._paint(colour, _COLOURS[colour])}/>"
        if kind in _HATCHED:
            yield f'<rect {box} fill="url(#timeline-hatch)"/>'
        elif kind is PhaseKind.RETRY_DELAY:
            yield f'<rect {box} fill="url(#timeline-dots)"/>'

    def _lane(self, lane: Mapping[str, Any], status: str, top: int) -> Iterator[str]:
        """How many items ran, as an area; failures as ticks below."""
        bins = len(lane["running"])
        highest = max(lane["running"], default=0) or 1
        begin, width = lane["fromMs"], (lane["toMs"] - lane["fromMs"]) / bins
        base = top + ROW - 4
        points = [f"M{self._x(begin):.1f} {base}"]
        for place, value in enumerate(lane["running"]):
            y = base - value / highest * (ROW - 7)
            points.append(f"V{y:.1f}H{self._x(begin + (place + 1) * width):.1f}")
        area = " ".join([*points, f"V{base}Z"])
        colour = colour_of(PhaseKind.ITEMS, status)
        yield f'<path d="{area}" fill-opacity="0.75" {self._paint(colour, _COLOURS[colour])}/>'
        for place, failed in enumerate(lane["failed"]):
            if failed:
                x = self._x(begin + (place + 0.5) * width)
                paint = self._paint("f-failed", _COLOURS["f-failed"])
                yield f'<rect x="{x:.1f}" y="{base - 6}" width="2" height="9" {paint}/>'

    def legend(self, places: Sequence[tuple[PhaseKind, float, int]], y: int) -> Iterator[str]:
        """What the bars of this picture mean."""
        for kind, x, line in places:
            colour, top = colour_of(kind, "completed"), y + line * LEGEND_LINE
            box = f'x="{x:.1f}" y="{top - 10}" width="14" height="11"'
            pale = ' fill-opacity="0.45"' if kind is PhaseKind.QUEUE else ""
            yield f"<rect {box}{pale} {self._paint(colour, _COLOURS[colour])}/>"
            if kind in _HATCHED or kind is PhaseKind.RETRY_DELAY:
                pattern = "dots" if kind is PhaseKind.RETRY_DELAY else "hatch"
                yield f'<rect {box} fill="url(#timeline-{pattern})"/>'
            yield self._text(x + 19, top, WORDS[kind], "t-muted", _MUTED)

    def _x(self, ms: float) -> float:
        return NAMES + min(max(ms / self._total_ms, 0.0), 1.0) * self._room

    def _text(self, x: float, y: float, words: str, name: str, colour: str) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" {self._paint(name, colour)}>{escape(words)}</text>'

    def _paint(self, name: str, colour: str, what: str = "fill") -> str:
        return f'class="{name}"' if self._is_page else f'{what}="{colour}"'


def colour_of(kind: PhaseKind, status: str) -> str:
    """The class of a bar's colour. Colour is only ever status: that which the step had then."""
    match kind:
        case PhaseKind.WORK | PhaseKind.ITEMS:
            return "f-running" if status in ("running", "waiting") else "f-completed"
        case PhaseKind.FAILED_WORK:
            return "f-failed"
        case PhaseKind.ASLEEP | PhaseKind.APPROVAL | PhaseKind.SIGNAL | PhaseKind.CHILD | PhaseKind.OUTSIDE:
            return "f-waiting"
        case PhaseKind.QUEUE | PhaseKind.TASK_LIMIT | PhaseKind.TENANT_LIMIT:
            return "f-queued"
        case _:
            return "f-pending"


def _placed_kinds(steps: Sequence[Step], width: int) -> list[tuple[PhaseKind, float, int]]:
    """The kinds of a picture with their places in its legend: from the left, and in which line."""
    kinds = {bar["kind"] for step in steps for bar in step["bars"]}
    places: list[tuple[PhaseKind, float, int]] = []
    x, line = 8.0, 0
    for kind in (each for each in PhaseKind if each in kinds):
        room = 42 + LETTER * 0.85 * len(WORDS[kind])
        if x + room > width and x > 8:
            x, line = 8.0, line + 1
        places.append((kind, x, line))
        x += room
    return places


def _in_words(step: Step) -> str:
    """A step in words: `resize, completed: 2.0 s queue, 12.0 s work`."""
    waits = ", ".join(
        f"{took(bar['toMs'] - bar['fromMs'])} {WORDS[PhaseKind(bar['kind'])]}" for bar in step["bars"][:12]
    )
    return f"{step['stepId']}, {step['status']}" + (f": {waits}" if waits else "")


def _cut(name: str) -> str:
    most = int((NAMES - 16) / LETTER)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _at(ms: float) -> str:
    """A round moment of the axis: `0`, `200 ms`, `30 s`, `2 min 30 s`."""
    if ms < 1_000 or ms >= 60_000:
        return took(ms) if ms else "0"
    return f"{ms / 1000:.0f} s" if ms % 1_000 == 0 else f"{ms / 1000:.1f} s"


def _round_step(ms: float) -> float:
    """The next of 1, 2, 5, 10, 20, … ms; beyond seconds of 1, 2, 5, 10, 15, 30 s or min, hours, days."""
    seconds = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
    steps = [*(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500), *(each * 1_000 for each in seconds)]
    step = next((each for each in steps if each >= ms), None)
    return step if step is not None else 86_400_000 * (ms // 86_400_000 + 1)
