"""The parts that charts are made of: what they tell, and the pieces of their SVG (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeweave.api.ui import words

# Drawn in these units; the page's width stretches them.
WIDTH, HEIGHT = 600, 90
# Times below a chart.
TICKS = 5


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, as a chart names it.

    Args:
        label: when it began, as a text in UTC.
        at: the same as RFC 3339; a script shows it in the reader's zone.
        href: what a click opens; empty: nothing.
        is_dated: the label tells the day, too.
    """

    label: str
    at: str = ""
    href: str = ""
    is_dated: bool = False


# Moments of a chart: where each is, 0 to 1, and what happened then.
Marks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and its table.

    Args:
        picture: an `<svg>` with a title.
        title: what the picture shows, in a sentence.
        headings: of the table.
        rows: of the table: what each is about, and texts.
        top: what the whole height stands for.
        ticks: times below the picture, at equal distances.
        legend: (class of its colour, words) of each part.
    """

    picture: Markup
    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[Stretch, Sequence[str]]]
    top: str = ""
    ticks: Sequence[Stretch] = ()
    legend: Sequence[tuple[str, str]] = ()


def duration(ms: float | None) -> str:
    """A duration as the dashboard writes it; a dash for none."""
    return "-" if ms is None else words.duration(ms)


def ticks(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The first stretch, the last, and those at equal distances between them."""
    if len(stretches) < TICKS:
        return list(stretches)
    last = len(stretches) - 1
    return [stretches[round(last * number / (TICKS - 1))] for number in range(TICKS)]


def moment(stretch: Stretch) -> Markup:
    """The attributes by which a script puts a label into the reader's zone."""
    if not stretch.at:
        return Markup("")
    return Markup(' data-at="{}" data-label="{}"{}').format(
        stretch.at, stretch.label, Markup(" data-dated") if stretch.is_dated else ""
    )


def bar(x: float, bottom: float, width: float, height: float, css: str) -> Markup:
    """A bar that stands on `bottom`. What there is must be seen, however few it is."""
    height = max(height, 1.0)
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        css, x, bottom - height, width, height
    )


def mark(place: float, event: str) -> Markup:
    """A line at a moment.

    Args:
        place: where in the picture, 0 to 1.
        event: what happened then.
    """
    x = WIDTH * place
    # The line that answers the pointer is wider than the one that is seen.
    return Markup(
        '<g class="at"><line x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>'
        '<line class="near" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/><title>{2}</title></g>'
    ).format(x, HEIGHT, event)


def hit(x: float, step: float) -> Markup:
    """What answers the pointer in a stretch: the whole height."""
    return Markup('<rect class="hit" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(x, step, HEIGHT)


def svg(
    kind: str, width: int, height: int, title: str, parts: Sequence[Markup], *, is_group: bool = False
) -> Markup:
    """A picture with a title. Bars and lines are stretched to the width of the page, names are not.

    Args:
        is_group: it has links, so its parts are told one by one.
    """
    fit = "xMinYMin meet" if kind == "heat" else "none"
    return Markup(
        '<svg class="chart {}" role="{}" width="{}" height="{}" viewBox="0 0 {} {}"'
        ' preserveAspectRatio="{}"><title>{}</title>{}</svg>'
    ).format(
        kind, "group" if is_group else "img", width, height, width, height, fit, title, Markup("").join(parts)
    )
