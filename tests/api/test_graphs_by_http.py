"""Graphs of pipelines and differences of versions, by HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from conftest import Api

FAN: dict[str, Any] = {
    "steps": [
        {"task": "list_files"},
        *({"id": f"count-{at}", "task": "count", "needs": ["list_files"]} for at in range(30)),
        {"task": "report", "needs": [f"count-{at}" for at in range(30)]},
    ]
}
GRAPH = "/api/pipelines/drawn/versions/1/graph"


@pytest.fixture(autouse=True)
def stored(api: Api) -> None:
    if api.get(GRAPH).status_code == 200:
        return
    assert api.put("/api/pipelines/drawn", FAN).json["version"] == 1
    changed = [*FAN["steps"][:-1], {**FAN["steps"][-1], "params": {"rows": 1}}]
    assert api.put("/api/pipelines/drawn", {"steps": changed}).json["version"] == 2


def test_a_graph_has_places_and_may_be_kept_for_ever(api: Api) -> None:
    answer = api.get(GRAPH)
    found = answer.json
    assert (found["view"], found["stepCount"], found["edgeCount"]) == ("all", 32, 60)
    assert found["boxes"]["keys"] == found["steps"]["ids"]
    assert len(found["boxes"]["x"]) == 32
    assert "immutable" in answer.headers["Cache-Control"]
    assert "X-Tenant" in answer.headers["Vary"]
    assert api.get(GRAPH).data == answer.data


def test_a_body_has_a_graph_of_its_own(api: Api) -> None:
    inner = [{"id": "rows", "task": "count"}, {"id": "load", "task": "report"}]
    each = {"id": "each", "map": {"over": [1, 2], "steps": inner}}
    assert api.put("/api/pipelines/with-body", {"steps": [{"task": "list_files"}, each]}).status_code < 300
    path = "/api/pipelines/with-body/versions/1/graph"
    whole = api.get(path).json
    assert [frame["title"] for frame in whole["frames"]] == ["each item of each"]
    found = api.get(path, body="each.map").json
    assert (found["steps"]["ids"], found["stepCount"], found["frames"]) == (["rows", "load"], 2, [])
    assert "each.map" in api.get(f"{path}.svg", body="each.map").text
    assert api.get(path, body="nothing.map").status_code == 404


def test_the_pattern_opens_a_class(api: Api) -> None:
    closed = api.get(GRAPH, view="pattern").json
    assert closed["boxes"]["keys"] == ["list_files", "1/count", "report"]
    assert closed["links"]["labels"] == {"0": "1:n", "1": "n:1"}
    opened = api.get(GRAPH, view="pattern", open="1/count,nothing").json
    assert opened["open"] == ["1/count"]
    assert [(each["box"], each["rows"], each["shown"]) for each in opened["blocks"]] == [(1, 25, 30)]
    assert opened["height"] > closed["height"]


def test_a_graph_without_layout_has_the_same_links(api: Api) -> None:
    with_places, without = api.get(GRAPH).json, api.get(GRAPH, layout="false").json
    assert without["boxes"]["x"] is without["width"] is without["junctions"]["y"] is None
    assert without["links"]["sources"] == with_places["links"]["sources"]


def test_a_graph_may_go_from_the_top_down(api: Api) -> None:
    right, down = api.get(GRAPH).json, api.get(GRAPH, direction="down").json
    assert (right["direction"], down["direction"]) == ("right", "down")
    first, last = (down["boxes"]["keys"].index(each) for each in ("list_files", "report"))
    assert down["boxes"]["y"][first] < down["boxes"]["y"][last]
    drawn = ElementTree.fromstring(api.get(f"{GRAPH}.svg", direction="down").data)
    assert drawn.get("viewBox") == f"0 0 {down['width']} {down['height']}"
    assert api.get(GRAPH, direction="up").status_code == 400


def test_a_drawing_is_a_file(api: Api) -> None:
    answer = api.get(f"{GRAPH}.svg")
    assert answer.content_type == "image/svg+xml"
    assert "drawn-1.svg" in answer.headers["Content-Disposition"]
    assert ElementTree.fromstring(answer.data).get("viewBox") == f"0 0 {api.get(GRAPH).json['width']} " + str(
        api.get(GRAPH).json["height"]
    )


@pytest.mark.parametrize("version", ["3", "0", "-1", "x", "99999999999"])
def test_a_version_that_is_not_there_is_not_found(api: Api, version: str) -> None:
    for rest in ("graph", "graph.svg", "diff/1"):
        assert api.get(f"/api/pipelines/drawn/versions/{version}/{rest}").status_code == 404


@pytest.mark.parametrize("query", [{"view": "most"}, {"open": "a b"}, {"open": "a" * 5_000}, {"layout": "2"}])
def test_wrong_parameters_are_named(api: Api, query: dict[str, str]) -> None:
    answer = api.get(GRAPH, **query)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json["errors"]] == list(query)


def test_two_versions_are_compared(api: Api) -> None:
    found = api.get("/api/pipelines/drawn/versions/1/diff/2").json
    assert (found["from"], found["to"], found["added"], found["removed"]) == (1, 2, [], [])
    assert found["changed"] == [
        {"id": "report", "changes": [{"field": "params", "before": None, "after": {"rows": 1}}]}
    ]
