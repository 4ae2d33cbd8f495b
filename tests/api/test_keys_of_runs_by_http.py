"""A pipeline with one run of a key at a time, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Api


def store(api: Api, id: str, **concurrency: Any) -> str:
    document = {"steps": [{"task": "send-mail"}], "concurrency": {"key": "${input.to}", **concurrency}}
    assert api.put(f"/api/pipelines/{id}", document).status_code in (200, 201)
    return f"/api/pipelines/{id}/trigger"


def test_a_second_request_of_a_singleton_gets_the_run_that_is_open(api: Api) -> None:
    path = store(api, "mail-once", onLimit="skip")
    first, again = (api.post(path, {"input": {"to": "a@example.com"}}).json for _ in range(2))
    assert (first["created"], "skipped" in first) == (True, False)
    assert again["pipelineRunId"] == first["pipelineRunId"]
    assert (again["created"], again["skipped"], again["status"]) == (False, True, "running")


def test_a_run_that_waits_for_its_key_says_so(api: Api) -> None:
    path = store(api, "mail-in-turn")
    first, second = (api.post(path, {"input": {"to": "b@example.com"}}).json for _ in range(2))
    assert (second["status"], second["queuedTasks"]) == ("pending", [])
    why = api.get(f"/api/runs/{second['pipelineRunId']}/why").json
    assert why["summary"] == "1 waits: 1 for other runs of its key"
    assert why["reasons"][0]["reasons"][0]["runs"] == [first["pipelineRunId"]]


def test_an_input_without_the_key_is_a_mistake_of_the_request(api: Api) -> None:
    path = store(api, "mail-in-turn")
    answer = api.post(path, {"input": {}, "validationMode": "none"})
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_INPUT")
    [error] = answer.json["errors"]
    assert (error["field"], error["code"], error["expected"]) == ("input", "no_key", "${input.to}")
