"""Charts are SVG that says in words and in a table what it shows, whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pipeweave.api.ui import charts, templating
from pipeweave.api.ui.chart_parts import Stretch

HOSTILE = "<b onclick='x()'>&\"</b>"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def titles(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter("title")]


def named(*labels: str) -> list[Stretch]:
    return [Stretch(each) for each in labels]


def test_a_stack_says_what_each_part_is() -> None:
    two, three = named("14:00", "14:01")
    found = charts.stacked([(two, {"completed": 3, "failed": 1}), (three, {})], "Runs a minute")
    assert titles(found.picture) == ["Runs a minute", "14:00: 3 completed, 1 failed", "14:01: none"]
    assert (found.headings, found.rows) == (["from", "completed", "failed"], [(two, ["3", "1"])])
    heights = {each.get("class"): float(each.get("height", 0)) for each in parsed(found.picture).iter("rect")}
    assert heights["f-completed"] == 3 * heights["f-failed"]
    assert found.top == "4"
    assert found.legend == [("f-completed", "3 completed"), ("f-failed", "1 failed")]


def test_a_stretch_with_runs_is_a_link_and_an_empty_one_is_none() -> None:
    points = [(Stretch("14:00", href="/a"), {"failed": 1}), (Stretch("14:01", href="/b"), {"failed": 0})]
    picture = parsed(charts.stacked(points, "Runs").picture)
    assert [each.get("href") for each in picture.iter("a")] == ["/a"]
    # An image has no parts for those who do not see it, so one with links is none.
    assert picture.get("role") == "group"


def test_a_line_has_a_gap_where_nothing_was() -> None:
    values = {"p95": [10.0, None, 30.0, 20.0], "p50": [None, None, 5.0, None]}
    found = charts.lines(named("1", "2", "3", "4"), values, "p95")
    drawn = [
        (each.get("class"), len(each.get("points", "").split()))
        for each in parsed(found.picture).iter("polyline")
    ]
    assert drawn == [("one point", 2), ("one", 2), ("two point", 2)]
    assert [(stretch.label, cells) for stretch, cells in found.rows] == [
        ("1", ["10 ms", "-"]),
        ("3", ["30 ms", "5 ms"]),
        ("4", ["20 ms", "-"]),
    ]
    assert titles(found.picture)[1:] == ["1: p95 10 ms", "3: p95 30 ms, p50 5 ms", "4: p95 20 ms"]
    assert found.top == "30 ms"


def test_the_longer_the_darker() -> None:
    found = charts.heat_map(named("Mon", "Tue", "Wed"), [("count", [10.0, None, 10_000.0])], "p95")
    shades = [float(each.get("fill-opacity", 0)) for each in parsed(found.picture).iter("rect")]
    assert shades == [0.15, 1.0]
    assert [cells for _, cells in found.rows] == [["10 ms", "-", "10.0 s"]]


def test_times_stand_below_at_equal_distances() -> None:
    points = [(each, {}) for each in named(*map(str, range(73)))]
    assert [each.label for each in charts.stacked(points, "runs").ticks] == ["0", "18", "36", "54", "72"]
    assert [each.label for each in charts.stacked(points[:3], "runs").ticks] == ["0", "1", "2"]


@pytest.mark.parametrize("values", [[], [0, 0], [1], [0.5, 2, 8]])
def test_a_sparkline_of_anything_is_a_picture(values: list[float]) -> None:
    picture = charts.sparkline(values, "attempts")
    bars = list(parsed(picture).iter("rect"))
    assert len(bars) == sum(value > 0 for value in values)
    assert all(0 < float(each.get("height", 0)) <= charts.SPARK_HEIGHT for each in bars)


def test_hostile_names_stay_text() -> None:
    found = charts.heat_map([Stretch(HOSTILE, HOSTILE, HOSTILE)], [(HOSTILE, [1.0])], HOSTILE)
    part = templating.environment().get_template("parts/chart.html").module
    shown = str(part.chart(found))  # type: ignore[attr-defined]
    assert "<b " not in shown
    assert "style=" not in shown
    assert titles(found.picture)[0] == HOSTILE
    found = charts.stacked([(Stretch(HOSTILE, HOSTILE, HOSTILE), {"failed": 1})], HOSTILE)
    assert next(parsed(found.picture).iter("a")).get("href") == HOSTILE
    assert "<b " not in str(part.chart(found))  # type: ignore[attr-defined]


def test_nothing_makes_charts_without_tables() -> None:
    empty = (
        charts.stacked([], "runs"),
        charts.lines([], {"p95": []}, "p95"),
        charts.heat_map([], [], "p95"),
    )
    assert all(not each.rows and titles(each.picture) == [each.title] for each in empty)
