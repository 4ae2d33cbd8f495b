"""Reruns over HTTP: one run, many runs, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.api_samples import SPEC

if TYPE_CHECKING:
    from conftest import Api


def cancelled(api: Api, pipeline: str) -> str:
    run_id = str(api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"])
    assert api.post(f"/api/runs/{run_id}/cancel").status_code == 200
    return run_id


def test_a_run_that_ended_runs_again_and_says_so(api: Api, pipeline: str) -> None:
    first = cancelled(api, pipeline)
    made = api.post(f"/api/runs/{first}/rerun").json
    assert (made["rerunOf"], made["status"], made["reusedSteps"]) == (first, "running", [])
    shown = api.get(f"/api/runs/{made['pipelineRunId']}").json
    assert (shown["rerunOf"], shown["rerunFrom"]) == (first, None)
    assert shown["triggeredBy"] == {"kind": "rerun", "id": first, "actor": "test"}
    listed = api.get("/api/runs", triggeredBy="rerun", pipelineId=pipeline).json["runs"]
    assert made["pipelineRunId"] in [each["id"] for each in listed]
    refused = api.post(f"/api/runs/{made['pipelineRunId']}/rerun")
    assert (refused.status_code, refused.json["code"]) == (409, "CONFLICT")


def test_a_key_makes_a_rerun_repeatable(api: Api, pipeline: str) -> None:
    first = cancelled(api, pipeline)
    body = {"fromStep": "report", "input": {}, "runToken": "once"}
    made, again = (api.post(f"/api/runs/{first}/rerun", body).json for _ in range(2))
    assert (made["created"], again["created"]) == (True, False)
    assert made["pipelineRunId"] == again["pipelineRunId"]
    assert made["reusedSteps"] == [], "nothing had completed, so all of it runs"


def test_mistakes_of_a_rerun_are_named(api: Api, pipeline: str) -> None:
    first = cancelled(api, pipeline)
    refused = api.post(f"/api/runs/{first}/rerun", {"fromStep": "raport"})
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "fromStep")
    assert "report" in refused.json["hint"]
    assert api.post(f"/api/runs/{first}/rerun", {"version": 99}).status_code == 404
    wrong = api.post(f"/api/runs/{first}/rerun", {"version": "oldest", "fromStep": 7}).json
    assert {each["field"].split(".")[0] for each in wrong["errors"]} == {"version", "fromStep"}


def test_another_input_and_other_params_are_shown_with_the_new_run(api: Api, pipeline: str) -> None:
    first = cancelled(api, pipeline)
    made = api.post(f"/api/runs/{first}/rerun", {"fromStep": "report", "params": {}, "input": {"n": 2}}).json
    assert made["edits"] == {"params": {"report": {}}, "otherInput": []}
    shown = api.get(f"/api/runs/{made['pipelineRunId']}").json
    assert (shown["edits"], shown["input"]) == (made["edits"], {"n": 2})


def test_params_without_their_step_are_refused(api: Api, pipeline: str) -> None:
    first = cancelled(api, pipeline)
    refused = api.post(f"/api/runs/{first}/rerun", {"params": {}})
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "fromStep")
    wrong = api.post(f"/api/runs/{first}/rerun", {"fromStep": "report", "params": {"x": "${steps.none}"}})
    assert (wrong.status_code, wrong.json["errors"][0]["field"]) == (400, "params.x")
    assert api.post(f"/api/runs/{first}/rerun", {"fromStep": "report", "params": [1]}).status_code == 400


def test_many_runs_run_again_by_a_filter(api: Api) -> None:
    # A pipeline of its own: other tests run theirs at later times.
    pipeline = "rerun-by-filter"
    assert api.put(f"/api/pipelines/{pipeline}", SPEC).status_code == 201
    mine = [cancelled(api, pipeline) for _ in range(3)]
    body = {"status": "cancelled", "pipelineId": pipeline, "limit": 2}
    planned = api.post("/api/runs/rerun-all", {**body, "dryRun": True}).json
    assert [each["runId"] for each in planned["runs"]] == mine[:0:-1]
    assert {each["pipelineRunId"] for each in planned["runs"]} == {None}
    made, again = (api.post("/api/runs/rerun-all", {**body, "runToken": "t"}).json for _ in range(2))
    assert [each["created"] for each in made["runs"]] == [True, True]
    assert [each["created"] for each in again["runs"]] == [False, False]
    assert [each["pipelineRunId"] for each in made["runs"]] == [
        each["pipelineRunId"] for each in again["runs"]
    ]
    rest = api.post("/api/runs/rerun-all", {**body, "cursor": made["nextCursor"], "fromStep": "nowhere"}).json
    assert (rest["runs"][0]["runId"], rest["runs"][0]["errorCode"]) == (mine[0], "INVALID_INPUT")
