"""The graph as a part of a page: the drawing without scripts, and what the element gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from support.api_samples import TENANT
from support.run_driver import PERMANENT, RunDriver, finish_task_run

from pipeweave import ids
from pipeweave.api.http import Caller, Inside
from pipeweave.api.routes import ENDPOINTS
from pipeweave.api.ui.graphs import graph_of
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import READ, CallerAccess

if TYPE_CHECKING:
    from conftest import Api

FAN: dict[str, Any] = {
    "steps": [
        {"task": "list_files"},
        *({"id": f"count-{at}", "task": "count", "needs": ["list_files"]} for at in range(30)),
        {"task": "report", "needs": [f"count-{at}" for at in range(30)]},
    ]
}
READER = CallerAccess(UUID(int=1), "alice", ("default",), (READ,))


@pytest.fixture
def run_id(api: Api) -> str:
    assert api.put("/api/pipelines/of-a-page", FAN).status_code in (200, 201)
    return str(api.post("/api/pipelines/of-a-page/trigger", {"input": {}}).json["pipelineRunId"])


def view(deployment: Deployment, *, is_fragment: bool = False, **given: str) -> View:
    lists = {name: [value] for name, value in given.items()}
    inside = Inside(deployment, ENDPOINTS)
    return View(inside, Caller(READER, "default"), "/runs/x", given, lists, is_fragment=is_fragment)


def links(found: dict[str, Any]) -> list[str | None]:
    root = ElementTree.fromstring(found["drawing"])
    return [each.get("href") for each in root.iter("{http://www.w3.org/2000/svg}a")]


def test_the_drawing_shows_the_states_and_leads_to_each_step(deployment: Deployment, run_id: str) -> None:
    found = graph_of(view(deployment, tab="graph"), "of-a-page", 1, run_id=run_id)
    assert links(found)[:2] == [
        "/ui/default/runs/x?tab=graph&step=list_files",
        "/ui/default/runs/x?tab=graph&step=count-0",
    ]
    assert 'class="graph-box s-queued"' in found["drawing"]
    assert (found["src"], found["states"]) == (
        "/api/pipelines/of-a-page/versions/1/graph",
        f"/api/runs/{run_id}/steps",
    )


def test_a_class_of_the_pattern_opens_and_closes_by_its_link(deployment: Deployment, run_id: str) -> None:
    closed = graph_of(view(deployment, view="pattern"), "of-a-page", 1)
    assert links(closed)[1] == "/ui/default/runs/x?view=pattern&open=1%2Fcount"
    opened = graph_of(view(deployment, view="pattern", open="1/count"), "of-a-page", 1)
    assert "count-29" in opened["drawing"]
    assert links(opened)[1] == "/ui/default/runs/x?view=pattern"
    assert opened["src"].endswith("graph?view=pattern&open=1%2Fcount")


def test_a_fragment_reads_nothing_and_says_what_the_element_asks(deployment: Deployment, run_id: str) -> None:
    shown = view(deployment, is_fragment=True, step="report")
    found = graph_of(shown, "of-a-page", 1, run_id=run_id)
    assert (found["drawing"], found["selected"]) == (None, "report")
    assert [each.path for each in shown.asked] == [found["src"], found["states"]]


def test_a_map_that_completed_without_some_items_is_partial_wherever_it_is_shown(
    api: Api, deployment: Deployment
) -> None:
    driver = RunDriver(deployment.database, "default")
    graph: dict[str, list[str]] = {"m": [], "after": ["m"]}
    driver.store(graph, id="partly", maps={"m": "${input.list}"}, failureMode="partial-merge")
    run = driver.trigger("partly", {"list": [1, 2, 3]})
    with deployment.database.transaction() as tx:
        finish_task_run(tx, run, 3, failure=PERMANENT)
    for number in (4, 5):
        with deployment.database.transaction() as tx:
            finish_task_run(tx, run, number)
    driver.check(run, 1)
    shown = ids.show(ids.RUN, run)
    drawing = graph_of(view(deployment, tab="graph"), "partly", 1, run_id=shown)["drawing"]
    assert 'class="graph-box s-partial"' in drawing
    assert ">1 failed</text>" in drawing
    assert 'class="graph-box s-completed"' not in drawing
    path = f"/ui/{TENANT}/runs/{shown}"
    rows = text_of(api, f"{path}?tab=steps")
    assert re.search(r'data-row.*?s-partial.*?m</a>.*?<span class="bad">1 failed</span>', rows, re.DOTALL)
    drawer = text_of(api, f"{path}?tab=steps&step=m")
    assert re.search(r'class="name">m</strong>\s*<span class="badge s-partial', drawer)
    grid = text_of(api, f"/ui/{TENANT}/pipelines/partly?tab=grid")
    assert re.search(r"m completed · 1 failed of 3 items.*?#m-partial", grid, re.DOTALL)


def text_of(api: Api, path: str) -> str:
    answer = api.get(path)
    assert answer.status_code == 200
    return str(answer.get_data(as_text=True))
