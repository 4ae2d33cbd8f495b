"""What the API answers to names that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import unknown_names

if TYPE_CHECKING:
    from conftest import Api


def hint(answer: Any, detail: str) -> str:
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")
    assert answer.json["detail"] == detail
    return str(answer.json["hint"])


def test_a_misspelt_pipeline_gets_the_nearest_name(api: Api, pipeline: str) -> None:
    for answer in (
        api.get("/api/pipelines/fiels"),
        api.get("/api/pipelines/fiels/versions"),
        api.post("/api/pipelines/fiels/trigger", {"input": {}}),
        api.post("/api/pipelines/fiels/trigger/batch", {"runs": [{}]}),
        api.post("/api/pipelines/fiels/dry-run"),
    ):
        assert hint(answer, "pipeline 'fiels' not found") == "did you mean 'files'?"


@pytest.mark.parametrize("path", ["runs", "dlq", "dlq/groups", "schedules", "triggers"])
def test_a_list_of_a_misspelt_pipeline_is_not_just_empty(api: Api, pipeline: str, path: str) -> None:
    answer = api.get(f"/api/{path}", pipelineId="fiels")
    assert hint(answer, "pipeline 'fiels' not found") == "did you mean 'files'?"
    # One that has nothing yet is empty.
    assert api.put("/api/pipelines/idle", {"steps": [{"task": "count"}]}).status_code in (200, 201)
    assert api.get(f"/api/{path}", pipelineId="idle").status_code == 200


def test_runs_of_one_known_and_one_misspelt_pipeline_are_told_while_there_are_any(
    api: Api, run_id: str
) -> None:
    both = ["files", "fiels"]
    assert api.get("/api/runs", pipelineId=both).json["runs"]
    answer = api.get("/api/runs", pipelineId=both, minMs=10**11)
    assert hint(answer, "pipeline 'fiels' not found") == "did you mean 'files'?"


def test_runs_of_a_pipeline_that_is_gone_are_listed(api: Api, run_id: str, deployment: Deployment) -> None:
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE runs SET pipeline_id = 'gone' WHERE id = :id", {"id": ids.read(ids.RUN, run_id)})
    assert [each["id"] for each in api.get("/api/runs", pipelineId="gone").json["runs"]] == [run_id]


def test_an_unknown_version_is_told_the_newest(api: Api, pipeline: str) -> None:
    answer = api.get(f"/api/pipelines/{pipeline}", version=77)
    assert hint(answer, f"pipeline {pipeline!r} has no version 77").startswith("its newest version is ")


def test_a_misspelt_task_gets_the_nearest_name(api: Api) -> None:
    for answer in (
        api.get("/api/tasks/coutn"),
        api.post("/api/queue/task", {"taskId": "coutn"}),
        api.post("/api/tasks/coutn/validate-input", {"input": {}}),
    ):
        assert hint(answer, "task 'coutn' not found") == "did you mean 'count'?"


def test_a_name_like_no_other_gets_some_that_exist(api: Api) -> None:
    assert hint(api.get("/api/services/zzzzzz"), "service 'zzzzzz' not found").startswith("known services: ")


def test_a_step_of_an_unknown_task_gets_the_nearest_name(api: Api) -> None:
    answer = api.put("/api/pipelines/misspelt", {"steps": [{"task": "reprot"}]})
    assert answer.status_code == 400
    assert answer.json["errors"][0]["message"].endswith("did you mean 'report'?")


def test_the_names_of_other_tenants_are_not_told(neighbour: Api) -> None:
    assert "count" not in hint(neighbour.get("/api/tasks/coutn"), "task 'coutn' not found").replace(
        "coutn", ""
    )


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (["orders"], "did you mean 'orders'?"),
        (["a", "b"], "known pipelines: a, b"),
        (list("abcdefg"), "known pipelines: a, b, c, d, e and 2 more"),
        (
            [],
            "the tenant has no pipeline yet; a worker stores those of its --app when it starts, or "
            "PUT /api/pipelines/{id} stores one",
        ),
    ],
)
def test_the_hint_is_the_nearest_name_or_some_names_or_how_to_make_one(known: list[str], said: str) -> None:
    assert unknown_names.hint("pipeline", "oders", known) == said
