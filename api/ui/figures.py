"""Charts of what endpoints of statistics answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from pipeweave.api.ui import charts
from pipeweave.api.ui.chart_parts import Chart, Marks, Stretch
from pipeweave.api.ui.periods import PERIODS, Period, last
from pipeweave.orchestrator.telemetry.statistics import STEPS

# How runs and attempts end, as the answers name it.
RUN_ENDS = ("completed", "partial", "failed", "cancelled")
OUTCOMES = ("completed", "failed", "timeout", "lost", "cancelled", "interrupted")
# Bars of a picture in a card.
MOST_SPARKS = 24
_DAY = timedelta(days=1)

# The address of a screen for a stretch of time: gets when it begins and ends.
Link = Callable[[datetime, datetime], str]


def stretches(answer: Mapping[str, Any], link: Link | None = None) -> list[Stretch]:
    """The buckets of an answer."""
    begin, end = (datetime.fromisoformat(answer[name]) for name in ("from", "to"))
    starts = [datetime.fromisoformat(each["at"]) for each in answer["points"]]
    return [_stretch(each, STEPS[answer["bucket"]], end - begin > _DAY, link) for each in starts]


def _stretch(at: datetime, step: timedelta, is_dated: bool, link: Link | None = None) -> Stretch:
    href = link(at, at + step) if link else ""
    if step >= _DAY:
        # Days are counted in UTC, whatever the reader's zone.
        return Stretch(f"{at:%-d %b %Y}", href=href)
    label = f"{at:%-d %b %H:%M} UTC" if is_dated else f"{at:%H:%M} UTC"
    return Stretch(label, at.isoformat(), href, is_dated)


def ends(
    answer: Mapping[str, Any], title: str, names: Sequence[str] = RUN_ENDS, link: Link | None = None
) -> Chart:
    """How many ended in which way.

    Args:
        names: the ways that are shown.
        link: where a click on a bucket leads.
    """
    counts = [{name: point[name] for name in names} for point in answer["points"]]
    return charts.stacked(list(zip(stretches(answer, link), counts, strict=True)), title, _marks(answer))


def fitted(
    ask: Callable[[Period], Any], period: Period, *, is_chosen: bool = False
) -> tuple[Period, Mapping[str, Any]]:
    """The figures of a period; where they are young, those of the shortest one that has them all.

    Args:
        ask: what the endpoint answers about a period.
        is_chosen: somebody chose the period, so it stays.
    """
    answer = ask(period)
    used = [each["at"] for each in answer["points"] if any(each[name] for name in RUN_ENDS)]
    if is_chosen or not period.name or not used:
        return period, answer
    age = datetime.fromisoformat(answer["to"]) - datetime.fromisoformat(used[0])
    shorter = next(name for name, length in PERIODS.items() if name == period.name or age <= length)
    if shorter == period.name:
        return period, answer
    return last(shorter), ask(last(shorter))


def sparks(answer: Mapping[str, Any]) -> dict[str, Markup]:
    """Small pictures of what the cards of the overview tell: `started`, `waited`, `failed` and `took`."""
    points = answer["points"]
    started = _sums([each["started"] for each in points])
    waited = _highest([each["waitMs"]["p95"] or 0 for each in points])
    failed = _sums([each["failed"] + each["partial"] for each in points])
    took = _highest([each["durationMs"]["p95"] or 0 for each in points])
    return {
        "started": charts.sparkline(started, "Runs that started"),
        "waited": charts.sparkline(waited, "How long runs waited, p95"),
        "failed": charts.sparkline(failed, "Runs that failed", "f-failed"),
        "took": charts.sparkline(took, "How long runs took, p95"),
    }


def _sums(values: Sequence[float]) -> list[float]:
    """Neighbours added up, so that there are MOST_SPARKS at most."""
    return [sum(each) for each in _neighbours(values)]


def _highest(values: Sequence[float]) -> list[float]:
    """Of neighbours the highest, so that there are MOST_SPARKS at most."""
    return [max(each) for each in _neighbours(values)]


def _neighbours(values: Sequence[float]) -> list[Sequence[float]]:
    width = -(-len(values) // MOST_SPARKS) or 1
    return [values[at : at + width] for at in range(0, len(values), width)]


def durations(answer: Mapping[str, Any], title: str, part: str = "durationMs") -> Chart:
    """Median and 95 % quantile over time.

    Args:
        part: `durationMs` or `waitMs`.
    """
    series = {name: [point[part][name] for point in answer["points"]] for name in ("p50", "p95")}
    shown = {f"≈ {name}": values for name, values in series.items()}
    return charts.lines(stretches(answer), shown, title, _marks(answer))


def _marks(answer: Mapping[str, Any]) -> Marks:
    """Where new versions begin."""
    begin, end = (datetime.fromisoformat(answer[name]) for name in ("from", "to"))
    return [
        ((datetime.fromisoformat(each["at"]) - begin) / (end - begin), f"v{each['version']} is new")
        for each in answer.get("versions", ())
    ]


def by_task(tasks: Mapping[str, Any], title: str) -> Chart | None:
    """What the attempts of tasks took, over time, as a heat map; None without any.

    Args:
        tasks: {from, bucket, rows}, as in the answer about a pipeline.
    """
    rows = [(each["taskId"], each["p95Ms"]) for each in tasks["rows"] if any(each["p95Ms"])]
    if not rows:
        return None
    begin, step = datetime.fromisoformat(tasks["from"]), STEPS[tasks["bucket"]]
    length = len(rows[0][1])
    columns = [_stretch(begin + number * step, step, length * step > _DAY) for number in range(length)]
    return charts.heat_map(columns, rows, title)
