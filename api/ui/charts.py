"""Charts as SVG, made on the server (pure): each has a title, what its parts say, and the same as a table.

Colour is only ever a status: what is none is drawn in the muted ink, a heat map in shades of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeweave.durations import in_words
from pipeweave.orchestrator.statistics import histogram as buckets

# Drawn in these units; the page's width stretches them.
WIDTH, HEIGHT = 600, 90
SPARK_WIDTH, SPARK_HEIGHT = 96, 20
CELL, LABEL, ROW = 16, 150, 18
# Stacked from below, as they are listed in the table.
STATUSES = ("completed", "partial", "failed", "timeout", "lost", "cancelled", "interrupted")


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and its table.

    Args:
        picture: an `<svg>` with a title.
        title: what the picture shows, in a sentence.
        headings: of the table.
        rows: of the table, as texts.
    """

    picture: Markup
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def sparkline(values: Sequence[float], title: str) -> Markup:
    """Bars without axes, for a row of a list.

    Args:
        values: 0 or more; the highest fills the height.
        title: what they are, and the highest.
    """
    highest = max(values, default=0) or 1
    step = SPARK_WIDTH / max(len(values), 1)
    bars = [
        _bar(number * step, SPARK_HEIGHT, step * 0.8, SPARK_HEIGHT * value / highest, "one")
        for number, value in enumerate(values)
        if value
    ]
    return _svg("spark", SPARK_WIDTH, SPARK_HEIGHT, title, bars)


def stacked(points: Sequence[tuple[str, Mapping[str, int]]], title: str) -> Chart:
    """How many of each status there were in each stretch of time.

    Args:
        points: (when it began, as a text; status -> number).
    """
    highest = max((sum(counts.values()) for _, counts in points), default=0) or 1
    step = WIDTH / max(len(points), 1)
    columns = [
        _column(number * step, step, label, counts, highest) for number, (label, counts) in enumerate(points)
    ]
    used = [each for each in STATUSES if any(counts.get(each) for _, counts in points)]
    rows = [[label, *(f"{counts.get(each, 0):,}" for each in used)] for label, counts in points]
    shown = [row for row, (_, counts) in zip(rows, points, strict=True) if sum(counts.values())]
    picture = _svg("stacked", WIDTH, HEIGHT, title, columns)
    return Chart(picture, title, ["from", *used], shown)


def _column(x: float, step: float, label: str, counts: Mapping[str, int], highest: int) -> Markup:
    """The parts of one stretch, above each other; the whole height answers the pointer."""
    y, parts = float(HEIGHT), []
    for status in STATUSES:
        height = HEIGHT * counts.get(status, 0) / highest
        if height:
            parts.append(_bar(x, y, step * 0.9, height, f"f-{status}"))
            y -= height
    told = ", ".join(f"{counts[each]:,} {each}" for each in STATUSES if counts.get(each)) or "none"
    return Markup(
        '<g>{}<rect class="hit" x="{:.1f}" y="0" width="{:.1f}" height="{}"/><title>{}</title></g>'
    ).format(Markup("").join(parts), x, step, HEIGHT, f"{label}: {told}")


def line(points: Sequence[tuple[str, float | None]], title: str, heading: str) -> Chart:
    """A duration (ms) over time; where there is none, the line has a gap.

    Args:
        points: (when a stretch began, as a text; the duration).
        heading: of the durations in the table.
    """
    highest = max((value for _, value in points if value is not None), default=0) or 1
    step = WIDTH / max(len(points), 1)
    parts, run = [], list[str]()
    for number, (_, value) in enumerate(points):
        if value is None:
            parts.append(_polyline(run))
            run = []
        else:
            run.append(f"{(number + 0.5) * step:.1f},{HEIGHT - (HEIGHT - 4) * value / highest:.1f}")
    parts.append(_polyline(run))
    rows = [[label, duration(value)] for label, value in points if value is not None]
    return Chart(_svg("line", WIDTH, HEIGHT, title, parts), title, ["from", heading], rows)


def _polyline(points: Sequence[str]) -> Markup:
    if not points:
        return Markup("")
    # A single point is a line of no length, whose round ends show.
    shown = " ".join([*points, points[-1]] if len(points) == 1 else points)
    return Markup('<polyline class="one" points="{}"/>').format(shown)


def histogram(found: buckets.Durations, title: str) -> Chart:
    """How many durations are in each bucket, from the shortest to the longest."""
    used = sorted(found.buckets)
    first, last = (used[0], used[-1]) if used else (0, 0)
    highest = max(found.buckets.values(), default=0) or 1
    step = WIDTH / (last - first + 1)
    bars, rows = [], []
    for bucket in used:
        number = found.buckets[bucket]
        label = f"{duration(buckets.lower_edge(bucket))} to {_end_of(bucket)}"
        bar = _bar((bucket - first) * step, HEIGHT, step * 0.9, HEIGHT * number / highest, "one")
        bars.append(Markup("<g>{}<title>{}</title></g>").format(bar, f"{label}: {number:,}"))
        rows.append([label, f"{number:,}"])
    return Chart(_svg("histogram", WIDTH, HEIGHT, title, bars), title, ["duration", "number"], rows)


def _end_of(bucket: int) -> str:
    return "longer" if bucket >= buckets.BUCKETS - 1 else duration(buckets.upper_edge(bucket))


def heat_map(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]], title: str) -> Chart:
    """Durations (ms) by row and column: the longer, the darker, in equal steps of their logarithm.

    Args:
        columns: when each column began, as a text.
        rows: (what it is about, a duration for each column).
    """
    known = [value for _, values in rows for value in values if value is not None]
    shades = _shades(known)
    cells = [
        _cell(number, place, value, shades[value], f"{name}, {columns[place]}: {duration(value)}")
        for number, (name, values) in enumerate(rows)
        for place, value in enumerate(values)
        if value is not None
    ]
    names = [
        Markup('<text x="0" y="{}">{}</text>').format(ROW * number + 13, name[:24])
        for number, (name, _) in enumerate(rows)
    ]
    table = [[name, *map(duration, values)] for name, values in rows]
    width, height = LABEL + CELL * max(len(columns), 1), ROW * max(len(rows), 1)
    return Chart(_svg("heat", width, height, title, [*names, *cells]), title, ["", *columns], table)


def _shades(values: Sequence[float]) -> dict[float, float]:
    """How dark each duration is, 0.15 to 1: the number of its bucket between those of all."""
    places = {value: buckets.bucket_of(value) for value in values}
    low, high = min(places.values(), default=0), max(places.values(), default=0)
    return {value: 0.15 + 0.85 * (each - low) / max(high - low, 1) for value, each in places.items()}


def _cell(row: int, column: int, value: float, shade: float, told: str) -> Markup:
    return Markup(
        '<rect class="one" x="{}" y="{}" width="{}" height="{}" fill-opacity="{:.2f}">'
        "<title>{}</title></rect>"
    ).format(LABEL + CELL * column, ROW * row, CELL - 1, ROW - 1, shade, told)


def duration(ms: float | None) -> str:
    """A duration in a few letters; a dash for none."""
    if ms is None:
        return "-"
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 1_000 else in_words(round(ms))


def _bar(x: float, bottom: float, width: float, height: float, css: str) -> Markup:
    # What there is must be seen, however few it is.
    height = max(height, 1.0)
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        css, x, bottom - height, width, height
    )


def _svg(kind: str, width: int, height: int, title: str, parts: Sequence[Markup]) -> Markup:
    # Bars and lines are stretched, names are not.
    fit = "xMinYMin meet" if kind == "heat" else "none"
    return Markup(
        '<svg class="chart {}" role="img" width="{}" height="{}" viewBox="0 0 {} {}"'
        ' preserveAspectRatio="{}"><title>{}</title>{}</svg>'
    ).format(kind, width, height, width, height, fit, title, Markup("").join(parts))
