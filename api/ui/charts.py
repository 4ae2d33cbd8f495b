"""Charts over time as SVG, made on the server (pure): each has a title, what its parts say, and the same as a
table.

Colour is only ever a status: what is none is drawn in the muted ink, a heat map in shades of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from pipeweave.api.ui.chart_parts import (
    HEIGHT,
    WIDTH,
    Chart,
    Marks,
    Stretch,
    bar,
    duration,
    hit,
    mark,
    moment,
    svg,
    ticks,
)
from pipeweave.api.ui.kept_parts import kept
from pipeweave.orchestrator.telemetry.statistics import histogram as buckets

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
CELL, LABEL, ROW = 16, 150, 18
# Half of the length of the line that a single point is: one of no length is not drawn.
POINT = 0.1
# Stacked from below, as they are listed in the table.
STATUSES = ("completed", "partial", "failed", "timeout", "lost", "cancelled", "interrupted")
# Classes of the lines of a chart.
LINES = ("one", "two", "three")


def sparkline(values: Sequence[float], title: str, css: str = "one") -> Markup:
    """Bars without axes, for a row of a list or a card.

    Args:
        css: the class of their colour.
        values: 0 or more; the highest fills the height.
        title: what they are, and the highest.
    """
    highest = max(values, default=0) or 1
    step = SPARK_WIDTH / max(len(values), 1)
    bars = [
        bar(number * step, SPARK_HEIGHT, step * 0.8, SPARK_HEIGHT * value / highest, css)
        for number, value in enumerate(values)
        if value
    ]
    return svg("spark", SPARK_WIDTH, SPARK_HEIGHT, title, bars)


# --- how many ---------------------------------------------------------------------------------------------


def stacked(points: Sequence[tuple[Stretch, Mapping[str, int]]], title: str, marks: Marks = ()) -> Chart:
    """How many of each status there were in each stretch of time."""
    made: Chart = kept("stacked", points, title, marks, caller=lambda: _stacked(points, title, marks))
    return made


def _stacked(points: Sequence[tuple[Stretch, Mapping[str, int]]], title: str, marks: Marks) -> Chart:
    highest = max((sum(counts.values()) for _, counts in points), default=0)
    step = WIDTH / max(len(points), 1)
    columns = [
        _column(number * step, step, stretch, counts, highest or 1)
        for number, (stretch, counts) in enumerate(points)
    ]
    columns += [mark(place, event) for place, event in marks]
    totals = {each: sum(counts.get(each, 0) for _, counts in points) for each in STATUSES}
    used = [each for each in STATUSES if totals[each]]
    rows = [
        (stretch, [f"{counts.get(each, 0):,}" for each in used])
        for stretch, counts in points
        if sum(counts.values())
    ]
    return Chart(
        svg("stacked", WIDTH, HEIGHT, title, columns, is_group=any(each.href for each, _ in points)),
        title,
        ["from", *used],
        rows,
        f"{highest:,}" if highest else "",
        ticks([stretch for stretch, _ in points]),
        [(f"f-{each}", f"{totals[each]:,} {each}") for each in used],
    )


def _column(x: float, step: float, stretch: Stretch, counts: Mapping[str, int], highest: int) -> Markup:
    """The parts of one stretch, above each other; the whole height answers the pointer."""
    y, parts = float(HEIGHT), []
    for status in STATUSES:
        height = HEIGHT * counts.get(status, 0) / highest
        if height:
            parts.append(bar(x, y, step * 0.9, height, f"f-{status}"))
            y -= height
    description = ", ".join(f"{counts[each]:,} {each}" for each in STATUSES if counts.get(each)) or "none"
    title = Markup("<title{}>{}: {}</title>").format(moment(stretch), stretch.label, description)
    parts.append(hit(x, step))
    column = Markup("<g>{}{}</g>").format(Markup("").join(parts), title)
    if not (stretch.href and sum(counts.values())):
        return column
    # Who uses the keyboard finds the same links in the table, without a stop at each column.
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(stretch.href, column)


# --- how long ---------------------------------------------------------------------------------------------


def lines(
    stretches: Sequence[Stretch],
    series: Mapping[str, Sequence[float | None]],
    title: str,
    marks: Marks = (),
) -> Chart:
    """Durations (ms) over time; where there is none, a line has a gap.

    Args:
        series: name -> a duration for each stretch; three at most.
    """
    known = [value for values in series.values() for value in values if value is not None]
    highest = max(known, default=0)
    step = WIDTH / max(len(stretches), 1)
    parts = [
        _path(values, step, highest or 1, css) for css, values in zip(LINES, series.values(), strict=False)
    ]
    columns = list(zip(*series.values(), strict=True))
    rows = [
        (stretch, [duration(value) for value in values])
        for stretch, values in zip(stretches, columns, strict=bool(columns))
        if any(value is not None for value in values)
    ]
    hits = [
        _tooltip(number * step, step, stretch, dict(zip(series, values, strict=True)))
        for number, (stretch, values) in enumerate(zip(stretches, columns, strict=bool(columns)))
        if any(value is not None for value in values)
    ]
    return Chart(
        svg("lines", WIDTH, HEIGHT, title, [*parts, *hits, *(mark(*each) for each in marks)]),
        title,
        ["from", *series],
        rows,
        duration(highest) if known else "",
        ticks(stretches),
        [(f"line-{css}", name) for css, name in zip(LINES, series, strict=False)] if known else (),
    )


def _path(values: Sequence[float | None], step: float, highest: float, css: str) -> Markup:
    parts, run = [], list[str]()
    for number, value in enumerate(values):
        if value is None:
            parts.append(_polyline(run, css))
            run = []
        else:
            run.append(f"{(number + 0.5) * step:.1f},{HEIGHT - (HEIGHT - 4) * value / highest:.1f}")
    return Markup("").join([*parts, _polyline(run, css)])


def _polyline(points: Sequence[str], css: str) -> Markup:
    if not points:
        return Markup("")
    if len(points) == 1:
        x, _, y = points[0].partition(",")
        css, points = f"{css} point", [f"{float(x) + half:.1f},{y}" for half in (-POINT, POINT)]
    shown = " ".join(points)
    return Markup('<polyline class="{}" points="{}"/>').format(css, shown)


def _tooltip(x: float, step: float, stretch: Stretch, values: Mapping[str, float | None]) -> Markup:
    description = ", ".join(
        f"{name} {duration(value)}" for name, value in values.items() if value is not None
    )
    title = Markup("<title{}>{}: {}</title>").format(moment(stretch), stretch.label, description)
    return Markup("<g>{}{}</g>").format(hit(x, step), title)


def heat_map(
    columns: Sequence[Stretch], rows: Sequence[tuple[str, Sequence[float | None]]], title: str
) -> Chart:
    """Durations (ms) by row and column: the longer, the darker, in equal steps of their logarithm.

    Args:
        rows: (what it is about, a duration for each column).
    """
    known = [value for _, values in rows for value in values if value is not None]
    shades = _shades(known)
    cells = [
        _cell(number, place, shades[value], columns[place], f"{name} {duration(value)}")
        for number, (name, values) in enumerate(rows)
        for place, value in enumerate(values)
        if value is not None
    ]
    names = [
        Markup('<text x="0" y="{}">{}<title>{}</title></text>').format(ROW * number + 13, name[:24], name)
        for number, (name, _) in enumerate(rows)
    ]
    table = [(Stretch(name), [duration(value) for value in values]) for name, values in rows]
    width, height = LABEL + CELL * max(len(columns), 1), ROW * max(len(rows), 1)
    picture = svg("heat", width, height, title, [*names, *cells])
    return Chart(picture, title, ["", *(each.label for each in columns)], table)


def _shades(values: Sequence[float]) -> dict[float, float]:
    """How dark each duration is, 0.15 to 1: the number of its bucket between those of all."""
    places = {value: buckets.bucket_of(value) for value in values}
    low, high = min(places.values(), default=0), max(places.values(), default=0)
    return {value: 0.15 + 0.85 * (each - low) / max(high - low, 1) for value, each in places.items()}


def _cell(row: int, column: int, shade: float, stretch: Stretch, description: str) -> Markup:
    return Markup(
        '<rect class="one" x="{}" y="{}" width="{}" height="{}" fill-opacity="{:.2f}">'
        "<title{}>{}: {}</title></rect>"
    ).format(
        LABEL + CELL * column,
        ROW * row,
        CELL - 1,
        ROW - 1,
        shade,
        moment(stretch),
        stretch.label,
        description,
    )
