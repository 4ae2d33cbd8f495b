"""Many runs with one request: all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.size_limits import MAX_BATCH

if TYPE_CHECKING:
    from conftest import Api

PATH = "/api/pipelines/mail-batch/trigger/batch"
RIGHT, WRONG = {"to": "a@example.com"}, {"to": "nobody"}


@pytest.fixture(autouse=True)
def _mail(api: Api) -> None:
    """A pipeline of one step whose task looks at its input."""
    assert api.put("/api/pipelines/mail-batch", {"steps": [{"task": "send-mail"}]}).status_code in (200, 201)


def runs_there(api: Api) -> set[str]:
    listed = api.get("/api/runs", pipelineId="mail-batch", limit=1000).json["runs"]
    return {str(each["id"]) for each in listed}


def test_each_run_of_a_batch_is_answered_as_if_it_were_alone(api: Api) -> None:
    wishes = [
        {"input": RIGHT},
        {"input": RIGHT, "failureMode": "continue", "priority": 5, "metadata": {"ticket": "T-1"}},
        {},
    ]
    answer = api.post(PATH, {"runs": wishes, "validationMode": "none"})
    assert answer.status_code == 200
    accepted = answer.json["runs"]
    assert [each["queuedTasks"] for each in accepted] == [["send-mail"]] * 3
    assert [each["created"] for each in accepted] == [True] * 3
    first, second, third = (api.get(f"/api/runs/{each['pipelineRunId']}").json for each in accepted)
    assert (second["failureMode"], second["priority"], second["metadata"]) == (
        "continue",
        5,
        {"ticket": "T-1"},
    )
    assert (first["failureMode"], first["priority"], first["metadata"]) == ("fail-fast", None, None)
    assert [each["input"] for each in (first, second, third)] == [RIGHT, RIGHT, {}]
    assert [each["counts"] for each in (first, second, third)] == [{"queued": 1}] * 3
    types = [each["type"] for each in api.get(f"/api/runs/{second['id']}/events").json["events"]]
    assert types[0] == "run.created"


def test_runs_are_answered_in_the_order_of_the_request(api: Api) -> None:
    accepted = api.post(PATH, {"runs": [{"metadata": {"n": n}} for n in range(20)]}).json["runs"]
    found = [each["pipelineRunId"] for each in accepted]
    assert len(set(found)) == 20
    assert [api.get(f"/api/runs/{each}").json["metadata"]["n"] for each in found] == list(range(20))


def test_a_batch_is_checked_as_the_mode_says(api: Api) -> None:
    wishes = [{"input": RIGHT}, {"input": WRONG}, {"input": {}}]
    before = runs_there(api)
    strict = api.post(PATH, {"runs": wishes, "validationMode": "strict"})
    assert (strict.status_code, strict.json["code"]) == (400, "INPUT_VALIDATION_FAILED")
    assert [each["field"] for each in strict.json["errors"]] == ["runs[1].input.to", "runs[2].input.to"]
    assert runs_there(api) == before
    warned = api.post(PATH, {"runs": wishes}).json["runs"]
    assert ["validationWarnings" in each for each in warned] == [False, True, True]
    unchecked = api.post(PATH, {"runs": wishes, "validationMode": "none"}).json["runs"]
    assert not any("validationWarnings" in each for each in unchecked)


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ({"priority": "high"}, "runs[1].priority"),
        ({"priority": 10**7}, "runs[1].priority"),
        ({"failureMode": "sometimes"}, "runs[1].failureMode"),
        ({"runToken": ""}, "runs[1].runToken"),
        ({"metadata": []}, "runs[1].metadata"),
        ({"validationMode": "none"}, "runs[1].validationMode"),
        ({"input": {"to": "a\0b"}}, "runs[1].input.to"),
        (3, "runs[1]"),
    ],
)
def test_one_wrong_run_refuses_all(api: Api, run: Any, field: str) -> None:
    before = runs_there(api)
    answer = api.post(PATH, {"runs": [{"input": RIGHT}, run]})
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_INPUT")
    assert [each["field"] for each in answer.json["errors"]] == [field]
    assert runs_there(api) == before


@pytest.mark.parametrize("count", [0, MAX_BATCH + 1])
def test_a_batch_has_at_least_one_run_and_at_most_the_limit(api: Api, count: int) -> None:
    answer = api.post(PATH, {"runs": [{}] * count})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "runs")


def test_run_tokens_count_within_a_batch_and_between_two(api: Api) -> None:
    once, other = {"input": RIGHT, "runToken": "batch"}, {"input": {"to": "b@example.com"}}
    first = api.post(PATH, {"runs": [once, other, once]}).json["runs"]
    assert [each["created"] for each in first] == [True, True, False]
    assert first[0]["pipelineRunId"] == first[2]["pipelineRunId"] != first[1]["pipelineRunId"]
    second = api.post(PATH, {"runs": [other, once]}).json["runs"]
    assert [each["created"] for each in second] == [True, False]
    assert second[1]["pipelineRunId"] == first[0]["pipelineRunId"]


def test_large_inputs_of_a_batch_are_kept_by_reference(api: Api) -> None:
    accepted = api.post(PATH, {"runs": [{"input": "x" * 100_000}, {"input": RIGHT}]}).json["runs"]
    assert accepted[0]["inputPath"] is not None
    assert accepted[1]["inputPath"] is None
    shown = api.get(f"/api/runs/{accepted[0]['pipelineRunId']}").json
    assert shown["inputRef"]["path"] == accepted[0]["inputPath"]


def test_a_batch_for_an_unknown_pipeline_is_refused_with_a_hint_for_a_tasks_name(api: Api) -> None:
    body = {"runs": [{}]}
    answer = api.post("/api/pipelines/nobody/trigger/batch", body)
    assert (answer.status_code, answer.json["pipelineId"]) == (404, "nobody")
    assert "/api/queue/task" in api.post("/api/pipelines/count/trigger/batch", body).json["hint"]


def test_a_batch_needs_the_right_to_write_and_its_own_tenant(api: Api, reader: Api, neighbour: Api) -> None:
    body = {"runs": [{"input": RIGHT}]}
    assert reader.post(PATH, body).status_code == 403
    assert neighbour.post(PATH, body).status_code == 404


def test_no_batch_is_accepted_during_maintenance(api: Api, deployment: Deployment) -> None:
    def set_mode(mode: str) -> None:
        with deployment.database.transaction() as tx:
            tx.execute("UPDATE orchestrator_state SET mode = :mode", {"mode": mode})

    set_mode("maintenance")
    try:
        assert api.post(PATH, {"runs": [{"input": RIGHT}]}).status_code == 503
    finally:
        set_mode("running")
