"""Charts are SVG that says in words and in a table what it shows, whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from jinja2 import Environment
from support.pages import text_of

from pipeweave.api.ui import charts
from pipeweave.orchestrator.statistics.histogram import of_durations

HOSTILE = "<b onclick='x()'>&\"</b>"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def titles(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter("title")]


def test_a_stack_says_what_each_part_is() -> None:
    found = charts.stacked([("14:00", {"completed": 3, "failed": 1}), ("14:01", {})], "Runs a minute")
    assert titles(found.picture) == ["Runs a minute", "14:00: 3 completed, 1 failed", "14:01: none"]
    assert (found.headings, found.rows) == (["from", "completed", "failed"], [["14:00", "3", "1"]])
    heights = {each.get("class"): float(each.get("height", 0)) for each in parsed(found.picture).iter("rect")}
    assert heights["f-completed"] == 3 * heights["f-failed"]


def test_a_line_has_a_gap_where_nothing_was() -> None:
    values = [("1", 10.0), ("2", None), ("3", 30.0), ("4", 20.0)]
    found = charts.line(values, "p95", "p95")
    lines = [each.get("points", "").split() for each in parsed(found.picture).iter("polyline")]
    assert [len(each) for each in lines] == [2, 2]
    assert found.rows == [["1", "10 ms"], ["3", "30 ms"], ["4", "20 ms"]]


def test_a_histogram_names_the_edges_of_its_buckets() -> None:
    found = charts.histogram(of_durations([100, 100, 100, 2e9]), "How long")
    assert found.rows == [["100 ms to 126 ms", "3"], ["22 hours 3 minutes to longer", "1"]]


def test_the_longer_the_darker() -> None:
    found = charts.heat_map(["Mon", "Tue", "Wed"], [("count", [10.0, None, 10_000.0])], "p95")
    shades = [float(each.get("fill-opacity", 0)) for each in parsed(found.picture).iter("rect")]
    assert shades == [0.15, 1.0]
    assert found.rows == [["count", "10 ms", charts.duration(None), "10 seconds"]]


@pytest.mark.parametrize("values", [[], [0, 0], [1], [0.5, 2, 8]])
def test_a_sparkline_of_anything_is_a_picture(values: list[float]) -> None:
    picture = charts.sparkline(values, "attempts")
    bars = list(parsed(picture).iter("rect"))
    assert len(bars) == sum(value > 0 for value in values)
    assert all(0 < float(each.get("height", 0)) <= charts.SPARK_HEIGHT for each in bars)


def test_hostile_names_stay_text() -> None:
    found = charts.heat_map([HOSTILE], [(HOSTILE, [1.0])], HOSTILE)
    part = Environment(autoescape=True).from_string(text_of("api/ui/templates/parts/chart.html")).module
    shown = str(part.chart(found))  # type: ignore[attr-defined]
    assert "<b " not in shown
    assert "style=" not in shown
    assert titles(found.picture)[0] == HOSTILE


def test_nothing_makes_charts_without_tables() -> None:
    empty = (
        charts.stacked([], "runs"),
        charts.line([], "p95", "p95"),
        charts.histogram(of_durations([]), "took"),
        charts.heat_map([], [], "p95"),
    )
    assert all(not each.rows and titles(each.picture) == [each.title] for each in empty)
