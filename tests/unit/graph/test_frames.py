"""Frames around what runs apart from the steps: for each item, when a step fails, at the end."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from support.graphs import plan_of

from pipeweave.cli.support.graph_text import graph_lines
from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.graph import DrawingView, graph_document, layout, read_document, shape_of, svg
from pipeweave.orchestrator.graph.frames import MOST_FRAMES
from pipeweave.orchestrator.graph.shapes import DrawingFrame
from pipeweave.spec import parse_spec

SHOP = {
    "errorHandlers": [
        {"condition": "error.kind == 'TIMEOUT'", "pipeline": "tell-support", "handled": False},
        {"steps": [{"id": "note", "task": "note"}]},
    ],
    "finally": {"steps": [{"id": "free", "task": "free"}, {"id": "count", "task": "count"}]},
    "steps": [
        {
            "id": "reserve",
            "task": "reserve",
            "compensate": {"pipeline": "put-back"},
            "onError": {"steps": [{"id": "by_hand", "task": "by_hand", "onError": {"pipeline": "give-up"}}]},
        },
        {
            "id": "files",
            "map": {
                "over": [1, 2],
                "steps": [
                    {"id": "rows", "task": "extract"},
                    {"id": "load", "task": "load", "condition": "steps.rows > 0"},
                ],
            },
        },
        {"id": "asked", "loop": {"maxIterations": 3, "steps": [{"id": "ask", "task": "ask"}]}},
    ],
}
TITLES = [
    "when reserve fails",
    "when by_hand fails",
    "takes reserve back when the run fails",
    "each item of files",
    "each round of asked",
    "when a step fails (and stays failed), if error.kind == 'TIMEOUT'",
    "when a step fails",
    "at the end, however it ends",
]


def shop() -> Plan:
    return compile_plan(parse_spec(SHOP, id="shop"))


def inside(frame: DrawingFrame, shape: object) -> list[str]:
    return [shape.boxes[each].title for each in frame.elements]  # type: ignore[attr-defined]


def test_all_that_runs_apart_has_a_frame_that_says_when() -> None:
    shape = shape_of(shop(), DrawingView.ALL)
    assert [each.title for each in shape.frames] == TITLES
    assert [inside(each, shape) for each in shape.frames] == [
        ["by_hand"],
        ["give-up"],
        ["put-back"],
        ["rows", "load"],
        ["ask"],
        ["tell-support"],
        ["note"],
        ["free", "count"],
    ]
    assert [box.title for box in shape.boxes if box.steps] == ["reserve", "files", "asked"]


def test_a_pipeline_without_any_has_no_frames() -> None:
    assert shape_of(plan_of({"a": [], "b": ["a"]}), DrawingView.ALL).frames == ()


def test_no_link_leads_into_a_frame_or_out_of_it() -> None:
    shape = shape_of(shop(), DrawingView.ALL)
    frame_of = {each: frame.place for frame in shape.frames for each in frame.elements}
    assert all(frame_of.get(link.source) == frame_of.get(link.target) for link in shape.links)
    assert len(shape.links) == 2 + 1 + 1


@pytest.mark.parametrize("is_down", [False, True])
def test_frames_have_room_for_what_is_in_them_and_overlap_nothing(is_down: bool) -> None:
    shape = shape_of(shop(), DrawingView.ALL)
    found = layout(shape, is_down=is_down)
    for frame, (x, y, width, height) in zip(shape.frames, found.frames, strict=True):
        assert x >= 0 and y >= 0 and x + width <= found.width and y + height <= found.height
        for at in range(len(shape)):
            (left, top), (wide, high) = found.places[at], found.sizes[at]
            is_apart = left >= x + width or left + wide <= x or top >= y + height or top + high <= y
            is_within = x <= left and left + wide <= x + width and y + 20 <= top and top + high <= y + height
            assert is_within if at in frame.elements else is_apart
    for (x, y, width, height), (left, top, wide, high) in combinations(found.frames, 2):
        assert left >= x + width or left + wide <= x or top >= y + height or top + high <= y


@pytest.mark.parametrize("is_down", [False, True])
def test_the_document_holds_all_that_is_drawn(is_down: bool) -> None:
    shape = shape_of(shop(), DrawingView.ALL)
    document = graph_document(shop(), DrawingView.ALL, pipeline_id="shop", version=1, is_down=is_down)
    read, places = read_document(document)
    assert read == shape
    assert places == layout(shape, is_down=is_down)
    assert [each["place"] for each in document["frames"]][-2:] == ["errorHandlers[1]", "finally"]
    assert document["stepCount"] == 3


def test_the_drawing_names_frames_and_links_only_the_steps_of_the_run() -> None:
    shape = shape_of(shop(), DrawingView.ALL)
    drawn = svg(shape, layout(shape), title="shop", statuses={1: "completed"}, href=lambda box: f"?{box.key}")
    root = ElementTree.fromstring(drawn)
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(TITLES) - {TITLES[5]} <= set(texts)
    links = [each.get("href") for each in root.iter("{http://www.w3.org/2000/svg}a")]
    assert links == ["?reserve", "?files", "?asked"]


def test_the_pattern_has_frames_for_the_end_and_for_no_class() -> None:
    many = [
        {"id": f"s{at}", "task": "work", "needs": [], "onError": {"pipeline": "mend"}} for at in range(200)
    ]
    plan = compile_plan(parse_spec({"steps": many, "finally": {"pipeline": "clean"}}, id="wide"))
    shape = shape_of(plan, DrawingView.PATTERN)
    assert [each.title for each in shape.frames] == ["at the end, however it ends"]
    assert len(shape_of(plan, DrawingView.ALL).frames) == MOST_FRAMES


def test_the_terminal_says_when_each_of_them_runs() -> None:
    document = graph_document(shop(), DrawingView.ALL, pipeline_id="shop", version=1, has_layout=False)
    lines = graph_lines(document)
    assert lines[:5] == [
        "●  reserve",
        "◆  files  map of steps",
        "●  asked  loop of steps",
        "",
        "when reserve fails:",
    ]
    at = lines.index("at the end, however it ends:")
    assert lines[at:] == ["at the end, however it ends:", "  ●  free", "  ●  count"]
    assert lines[lines.index("each item of files:") + 2] == "  ●  load"
    assert "  ●  put-back  pipeline" in lines
    assert max(map(len, lines)) <= 80
