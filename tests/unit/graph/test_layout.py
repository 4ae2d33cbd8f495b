"""Where the boxes, junctions and links of a drawing lie."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import WORKFLOWS, plan_of, plan_of_workflow

from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.graph import DrawingView, layers, layout, ordering, shape_of
from pipeweave.orchestrator.graph.shapes import Layout, Shape


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Graphs of up to 40 steps with any edges from earlier to later ones."""
    count = draw(st.integers(1, 40))
    needs: dict[str, list[str]] = {}
    for at in range(count):
        before = draw(st.sets(st.integers(0, at - 1), max_size=5)) if at else set()
        needs[f"s{at}"] = [f"s{each}" for each in sorted(before)]
    tasks = {step: f"t{draw(st.integers(0, 3))}" for step in needs}
    return plan_of(needs, tasks)


@given(plans(), st.sampled_from(DrawingView))
@settings(max_examples=60, deadline=None)
def test_links_lead_to_the_right_and_no_two_boxes_overlap(plan: Plan, view: DrawingView) -> None:
    shape = shape_of(plan, view)
    check(shape, layout(shape))
    check(shape, turned(layout(shape, is_down=True)))


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
@pytest.mark.parametrize("view", DrawingView)
def test_real_workflows_are_laid_out_without_overlaps(name: str, view: DrawingView) -> None:
    shape = shape_of(plan_of_workflow(name), view)
    check(shape, layout(shape))


@given(plans())
@settings(max_examples=20, deadline=None)
def test_the_same_shape_gets_the_same_layout(plan: Plan) -> None:
    assert layout(shape_of(plan, DrawingView.ALL)) == layout(shape_of(plan, DrawingView.ALL))


def test_what_follows_a_step_behind_a_junction_stays_right_of_it() -> None:
    joined = ["s0", "s1", "s2", "s3"]
    needs: dict[str, list[str]] = {"s0": [], "s1": [], "s2": [], "s3": ["s0"]}
    needs |= {"s4": joined, "s5": joined, "s6": joined, "s7": ["s0", "s1", "s5"]}
    shape = shape_of(plan_of(needs), DrawingView.ALL)
    check(shape, layout(shape))


def turned(found: Layout) -> Layout:
    """What goes from the top down as if it went from left to right."""
    places, sizes = ([(y, x) for x, y in each] for each in (found.places, found.sizes))
    bends = [tuple((y, x) for x, y in each) for each in found.bends]
    return Layout(found.height, found.width, places, sizes, bends)


def check(shape: Shape, found: Layout) -> None:
    for link, bends in zip(shape.links, found.bends, strict=True):
        right_of_source = found.places[link.source][0] + found.sizes[link.source][0]
        xs = [right_of_source, *(x for x, _ in bends), found.places[link.target][0]]
        assert all(left <= right for left, right in pairwise(xs)), (link, xs)
    for x, y in (*found.places, *(point for bends in found.bends for point in bends)):
        assert 0 <= x <= found.width
        assert 0 <= y <= found.height
    # Boxes sorted by their left sides: only near ones can overlap.
    rects = sorted((*place, *size) for place, size in zip(found.places, found.sizes, strict=True))
    for at, (left, top, width, height) in enumerate(rects):
        for other, low, _, high in rects[at + 1 :]:
            if other >= left + width:
                break
            assert low >= top + height or low + high <= top, "two boxes overlap"


def test_an_open_class_pushes_its_neighbours_away() -> None:
    needs = {"a": [], **{f"b{at}": ["a"] for at in range(60)}, "c": ["a"], "z": ["b0", "c"]}
    plan = plan_of(needs, {step: "b" for step in needs if step.startswith("b")})
    closed, opened = (shape_of(plan, DrawingView.PATTERN, keys) for keys in ((), ("1/b",)))
    assert [box.is_open for box in opened.boxes] == [False, True, False, False]
    found = layout(opened)
    check(opened, found)
    assert found.height > layout(closed).height
    assert found.sizes[1][0] > 3 * 132, "60 members stand in three columns"


def test_parts_that_nothing_connects_stand_beside_each_other() -> None:
    shape = shape_of(plan_of({f"s{at}": [] for at in range(100)}), DrawingView.ALL)
    found = layout(shape)
    check(shape, found)
    assert 1 < found.width / found.height < 4


def test_a_very_wide_level_stands_in_several_columns() -> None:
    needs = {"a": [], **{f"b{at}": ["a"] for at in range(1_000)}, "z": [f"b{at}" for at in range(1_000)]}
    shape = shape_of(plan_of(needs), DrawingView.ALL)
    found = layout(shape)
    check(shape, found)
    assert found.height < 100 * 60


def test_a_source_stands_right_before_its_first_successor() -> None:
    plan = plan_of({"a": [], "b": ["a"], "c": ["b"], "late": [], "end": ["c", "late"]})
    found = layout(shape_of(plan, DrawingView.ALL))
    assert found.places[3][0] == found.places[2][0]


def test_links_that_need_not_cross_do_not() -> None:
    count = 8
    levels = [0] * count + [1] * count
    links = [((at * 3) % count, count + at) for at in range(count)]
    found = layers.layered(levels, links)
    ordering.order(found)
    place = {element: at for row in found.rows for at, element in enumerate(row)}
    assert not any(
        (place[a] - place[c]) * (place[b] - place[d]) < 0 for (a, b), (c, d) in combinations(links, 2)
    )


def test_lanes_are_shared_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [(at, at + 1) for at in range(9)] + [(0, 9), (0, 8), (1, 9)]
    found = layers.layered(list(range(10)), links)
    assert len(found.layer_of) == 10 + 8 + 7, "both links of the first share their lanes"
    monkeypatch.setattr(layers, "MOST_LANES", 7)
    bounded = layers.layered(list(range(10)), links)
    assert len(bounded.layer_of) <= 17
    assert bounded.lanes[9] == (), "the longest is drawn as one curve"


def test_from_the_top_down_boxes_keep_their_shape_and_bars_lie() -> None:
    steps = [f"b{at}" for at in range(4)]
    needs: dict[str, list[str]] = {"a": [], **{each: ["a"] for each in steps}}
    needs |= {each: steps for each in ("y1", "y2", "y3")}
    shape = shape_of(plan_of(needs), DrawingView.ALL)
    right, down = layout(shape), layout(shape, is_down=True)
    assert (shape.junctions, down.is_down) == (1, True)
    assert down.sizes[: len(shape.boxes)] == right.sizes[: len(shape.boxes)]
    assert down.sizes[-1] == right.sizes[-1][::-1]
    tops = [down.places[at][1] for at in (0, 1, 5)]
    assert tops == sorted(set(tops)), "what follows stands below"
    assert down.width > down.height
