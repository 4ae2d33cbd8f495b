"""Classes of steps that look the same, and junctions."""

from __future__ import annotations

import pytest
from support.graphs import plan_of, plan_of_workflow

from pipeweave.orchestrator.graph import DrawingView, shape_of
from pipeweave.orchestrator.graph.shapes import Link


@pytest.mark.parametrize(
    ("name", "boxes", "links"),
    [
        ("montage-1738", 8, 9),
        ("montage-103", 8, 9),
        ("seismology-301", 2, 1),
        ("bwa-104", 5, 4),
        ("soykb-156", 14, 14),
        ("1000genome-52", 5, 5),
        ("epigenomics-41", 41, 48),
    ],
)
def test_the_pattern_of_a_real_workflow_is_small(name: str, boxes: int, links: int) -> None:
    plan = plan_of_workflow(name)
    shape = shape_of(plan, DrawingView.PATTERN)
    assert (len(shape.boxes), len(shape.links)) == (boxes, links)
    assert sorted(step for box in shape.boxes for step in box.steps) == list(range(1, len(plan.steps) + 1))


@pytest.mark.parametrize(
    ("needs", "label"),
    [
        ({"b1": ["a1"], "b2": ["a2"]}, "1:1"),
        ({"b1": ["a1"], "b2": ["a1"]}, "1:n"),
        ({"b1": ["a1", "a2"]}, "n:1"),
        ({"b1": ["a1", "a2"], "b2": ["a1", "a2"]}, "n:m"),
    ],
)
def test_a_link_says_how_the_members_belong_together(needs: dict[str, list[str]], label: str) -> None:
    plan = plan_of(
        {"a1": [], "a2": [], **needs},
        {"a1": "a", "a2": "a", "b1": "b", "b2": "b"},
    )
    links = shape_of(plan, DrawingView.PATTERN).links
    assert [link.label for link in links] == [label]


def test_maps_are_classes_of_their_own() -> None:
    plan = plan_of({"a": [], "b": ["a"], "m": ["a"]}, {"b": "t", "m": "t"}, maps=["m"])
    boxes = shape_of(plan, DrawingView.PATTERN).boxes
    assert [(box.key, box.is_map) for box in boxes] == [("a", False), ("b", False), ("m", True)]


def test_the_view_fits_the_size_unless_one_asks() -> None:
    few, many = (plan_of({f"s{at}": [] for at in range(count)}) for count in (150, 151))
    assert (DrawingView.of(few, None), DrawingView.of(many, None)) == (DrawingView.ALL, DrawingView.PATTERN)
    assert (DrawingView.of(few, "pattern"), DrawingView.of(many, "all")) == (
        DrawingView.PATTERN,
        DrawingView.ALL,
    )


def test_neighbouring_parallels_are_linked_by_a_junction() -> None:
    first, second = [f"a{at}" for at in range(100)], [f"b{at}" for at in range(100)]
    plan = plan_of({step: [] for step in first} | {step: first for step in second})
    shape = shape_of(plan, DrawingView.ALL)
    assert (shape.junctions, len(shape.links)) == (1, 200)
    assert shape.links[0] == Link(0, 200)
    assert shape.links[-1] == Link(200, 199)


@pytest.mark.parametrize(("sources", "targets"), [(2, 3), (3, 2)])
def test_few_links_stay_as_they_are(sources: int, targets: int) -> None:
    first = [f"a{at}" for at in range(sources)]
    plan = plan_of({step: [] for step in first} | {f"b{at}": first for at in range(targets)})
    shape = shape_of(plan, DrawingView.ALL)
    assert (shape.junctions, len(shape.links)) == (0, sources * targets)


def test_an_open_class_names_its_members_and_an_unknown_key_is_ignored() -> None:
    plan = plan_of({"a": [], "b1": ["a"], "b2": ["a"]}, {"b1": "b", "b2": "b"})
    boxes = shape_of(plan, DrawingView.PATTERN, ("1/b", "9/nothing")).boxes
    assert [(box.is_open, box.names) for box in boxes] == [(False, ()), (True, ("b1", "b2"))]
