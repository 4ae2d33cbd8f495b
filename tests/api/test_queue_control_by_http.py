"""Pauses, the limit of active runs, and why something waits, over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from flask import Flask
from support.api_samples import SERVICE, SPEC

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE
from pipeweave.spec.document import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def tenant(deployment: Deployment) -> str:
    """A tenant of this test alone: pauses and limits hold for all of it."""
    name = f"controlled-{next(_numbers)}"
    with deployment.database.transaction() as tx:
        service_registration.register(tx, name, SERVICE)
        pipelines.store(tx, name, parse_spec(SPEC, id="files"), source="api")
    return name


@pytest.fixture
def api(api: Api, tokens: Tokens, tenant: str) -> Api:
    """May read and write there."""
    api.token, api.tenant = tokens.make(READ, WRITE, tenants=(tenant,)), tenant
    return api


@pytest.fixture
def admin(app: Flask, api: Api, tokens: Tokens, tenant: str) -> Iterator[Api]:
    yield type(api)(app.test_client(), tokens.make(ADMIN, tenants=(tenant,)), tenant)


def trigger(api: Api) -> dict[str, str]:
    answer = api.post("/api/pipelines/files/trigger", {"input": {}})
    assert answer.status_code == 200
    return dict(answer.json)


def first_task_run(api: Api, run_id: str) -> dict[str, str]:
    return dict(api.get(f"/api/runs/{run_id}").json["taskRuns"][0])


def test_a_task_is_paused_and_resumed(api: Api) -> None:
    paused = api.post("/api/tasks/list_files/pause", {"reason": "the disk is full"})
    assert paused.status_code == 200
    assert (paused.json["taskId"], paused.json["reason"]) == ("list_files", "the disk is full")
    shown = api.get("/api/tasks/list_files").json["task"]
    assert (shown["pausedAt"], shown["pauseReason"]) == (paused.json["pausedAt"], "the disk is full")
    listed = {each["id"]: each["pausedAt"] for each in api.get("/api/tasks").json["tasks"]}
    assert [task for task, since in listed.items() if since] == ["list_files"]
    status = api.get("/api/queue/status").json
    assert (status["pausedAt"], status["pausedTasks"]) == (None, ["list_files"])

    task_run = first_task_run(api, trigger(api)["pipelineRunId"])
    assert task_run["status"] == "ready"
    why = api.get(f"/api/task-runs/{task_run['id']}/why").json
    assert why["status"] == "ready"
    assert [(each["code"], each["reason"]) for each in why["reasons"]] == [
        ("task_paused", "the disk is full")
    ]

    resumed = api.post("/api/tasks/list_files/resume")
    assert resumed.json == {"taskId": "list_files", "pausedAt": None, "reason": None}
    assert api.get(f"/api/task-runs/{task_run['id']}").json["status"] == "queued"
    again = api.post("/api/tasks/list_files/resume")
    assert (again.status_code, again.json["code"]) == (409, "CONFLICT")


def test_a_whole_tenant_is_paused_and_resumed(api: Api) -> None:
    first = api.post("/api/queue/pause")
    assert (first.status_code, first.json["taskId"], first.json["reason"]) == (200, None, None)
    second = api.post("/api/queue/pause", {"reason": "moving house"})
    assert (second.json["pausedAt"], second.json["reason"]) == (first.json["pausedAt"], "moving house")
    status = api.get("/api/queue/status").json
    assert (status["pausedAt"], status["pauseReason"]) == (first.json["pausedAt"], "moving house")
    assert {each["pauseReason"] for each in api.get("/api/tasks").json["tasks"]} == {"moving house"}
    queued = api.post("/api/queue/task", {"taskId": "count", "input": {}}).json["runId"]
    assert api.get(f"/api/task-runs/{queued}/why").json["reasons"][0]["code"] == "tenant_paused"
    assert api.post("/api/queue/resume").status_code == 200
    assert api.get(f"/api/task-runs/{queued}").json["status"] == "queued"
    assert api.post("/api/queue/resume").status_code == 409


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_unknown_task_is_not_found(api: Api, verb: str) -> None:
    answer = api.post(f"/api/tasks/nothing/{verb}")
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/api/queue/pause", "/api/queue/resume", "/api/tasks/count/pause"])
def test_a_read_token_cannot_pause(reader: Api, path: str) -> None:
    assert reader.post(path).status_code == 403


def test_runs_beyond_the_limit_are_pending_until_their_turn(api: Api, admin: Api) -> None:
    found = api.get("/api/queue/limits").json
    assert (found["maxActiveRuns"], found["activeRuns"], found["pendingRuns"]) == (None, 0, 0)
    assert api.put("/api/queue/limits", {"maxActiveRuns": 1}).status_code == 403
    assert admin.put("/api/queue/limits", {"maxActiveRuns": 1}).json["maxActiveRuns"] == 1

    first, second, third = trigger(api), trigger(api), trigger(api)
    assert [each["status"] for each in (first, second, third)] == ["running", "pending", "pending"]
    assert (first["queuedTasks"], second["queuedTasks"]) == (["list_files"], [])
    found = api.get("/api/queue/limits").json
    assert (found["maxActiveRuns"], found["activeRuns"], found["pendingRuns"]) == (1, 1, 2)
    waits = first_task_run(api, third["pipelineRunId"])
    [reason] = api.get(f"/api/task-runs/{waits['id']}/why").json["reasons"]
    assert (reason["code"], reason["position"], reason["waiting"]) == ("run_waits", 2, 2)

    api.post(f"/api/runs/{first['pipelineRunId']}/cancel")
    assert api.get(f"/api/runs/{second['pipelineRunId']}").json["status"] == "running"
    assert admin.put("/api/queue/limits", {"maxActiveRuns": None}).json["pendingRuns"] == 0
    assert api.get(f"/api/runs/{third['pipelineRunId']}").json["status"] == "running"


@pytest.mark.parametrize("body", [{}, {"maxActiveRuns": 0}, {"maxActiveRuns": "2"}, {"maxActiveRuns": 1e7}])
def test_a_limit_that_is_none_is_refused(admin: Api, body: dict[str, object]) -> None:
    answer = admin.put("/api/queue/limits", body)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "maxActiveRuns")


def test_why_is_asked_of_one_s_own_task_runs_alone(api: Api, neighbour: Api) -> None:
    task_run = first_task_run(api, trigger(api)["pipelineRunId"])
    assert neighbour.get(f"/api/task-runs/{task_run['id']}/why").status_code == 404
    reasons = api.get(f"/api/task-runs/{task_run['id']}/why").json["reasons"]
    assert [each["code"] for each in reasons] == ["no_worker", "queued"]
