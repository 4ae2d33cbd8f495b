"""Pausing and resuming runs over HTTP, one and many."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import SERVICE, SPEC

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.spec.document import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def api(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """A tenant of this test alone."""
    tenant = f"pausing-{next(_numbers)}"
    with deployment.database.transaction() as tx:
        service_registration.register(tx, tenant, SERVICE)
        for id in ("files", "others"):
            pipelines.store(tx, tenant, parse_spec(SPEC, id=id), source="api")
    api.token, api.tenant = tokens.make(READ, WRITE, tenants=(tenant,)), tenant
    return api


def trigger(api: Api, pipeline: str = "files") -> str:
    return str(api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"])


def change(api: Api, action: str, chosen: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = api.post("/api/runs/bulk", {"action": action, "filter": chosen, **options})
    assert answer.status_code == 200, answer.json
    return dict(answer.json)


def test_a_run_is_paused_and_resumed(api: Api) -> None:
    run_id = trigger(api)
    paused = api.post(f"/api/runs/{run_id}/pause", {"reason": "the disk is full"})
    assert paused.status_code == 200
    assert (paused.json["status"], paused.json["isRepeated"]) == ("paused", False)
    assert (paused.json["phase"], paused.json["pauseReason"]) == ("paused", "the disk is full")
    again = api.post(f"/api/runs/{run_id}/pause", {"reason": "another"}).json
    assert (again["isRepeated"], again["pausedAt"]) == (True, paused.json["pausedAt"])
    [listed] = api.get("/api/runs?status=paused").json["runs"]
    assert (listed["id"], listed["pauseReason"]) == (run_id, "the disk is full")

    [first, *_] = api.get(f"/api/runs/{run_id}").json["taskRuns"]
    assert first["status"] == "ready"
    [reason] = api.get(f"/api/task-runs/{first['id']}/why").json["reasons"]
    assert (reason["code"], reason["reason"]) == ("run_paused", "the disk is full")
    assert reason["by"] == paused.json["pausedBy"]

    resumed = api.post(f"/api/runs/{run_id}/resume").json
    assert (resumed["status"], resumed["isRepeated"], resumed["pausedAt"]) == ("running", False, None)
    assert api.post(f"/api/runs/{run_id}/resume").json["isRepeated"] is True
    events = [each["type"] for each in api.get(f"/api/runs/{run_id}/events").json["events"]]
    assert [each for each in events if each.startswith("run.")] == [
        "run.created",
        "run.paused",
        "run.resumed",
    ]


def test_a_final_run_cannot_be_paused_or_resumed(api: Api) -> None:
    run_id = trigger(api)
    api.post(f"/api/runs/{run_id}/pause")
    assert api.post(f"/api/runs/{run_id}/cancel").json["status"] == "cancelled"
    for action in ("pause", "resume"):
        answer = api.post(f"/api/runs/{run_id}/{action}")
        assert (answer.status_code, answer.json["code"]) == (409, "CONFLICT")


def test_many_runs_are_paused_resumed_and_cancelled_by_a_filter(api: Api) -> None:
    mine, other = [trigger(api) for _ in range(3)], trigger(api, "others")
    chosen = {"pipelineId": "files"}
    looked = change(api, "pause", chosen, dryRun=True)
    assert looked == {"matched": 3, "changed": 0, "runs": mine, "isDryRun": True, "isComplete": True}
    assert api.get("/api/runs?status=paused").json["runs"] == []
    first = change(api, "pause", chosen, limit=2)
    assert (first["changed"], first["runs"], first["isComplete"]) == (2, mine[:2], False)
    rest = change(api, "pause", chosen, limit=2)
    assert (rest["changed"], rest["runs"], rest["isComplete"]) == (1, mine[2:], True)
    assert change(api, "resume", {"status": "paused"})["changed"] == 3
    cancelled = change(api, "cancel", chosen | {"status": "running"}, reason="the wrong day")
    assert cancelled["changed"] == 3
    assert api.get(f"/api/runs/{mine[0]}").json["error"]["message"] == "the wrong day"
    assert api.get(f"/api/runs/{other}").json["status"] == "running"
    assert change(api, "cancel", chosen)["matched"] == 0


def test_runs_are_chosen_by_the_time_of_their_creation(api: Api) -> None:
    run_id = trigger(api)
    created = api.get(f"/api/runs/{run_id}").json["createdAt"]
    assert change(api, "cancel", {"createdBefore": "2020-01-01T00:00:00Z"})["matched"] == 0
    assert change(api, "cancel", {"createdAfter": created[:10] + "T00:00:00Z"}, dryRun=True)["matched"] == 1


def test_all_mistakes_are_told_at_once_and_a_filter_is_needed(api: Api) -> None:
    wrong = {"action": "stop", "filter": {"status": "asleep", "tag": "x"}, "limit": 0}
    answer = api.post("/api/runs/bulk", wrong)
    assert answer.status_code == 400
    fields = {each["field"] for each in answer.json["errors"]}
    assert fields == {"action", "filter.status", "filter.tag", "limit"}
    trigger(api)
    answer = api.post("/api/runs/bulk", {"action": "cancel", "filter": {}})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "filter")


def test_runs_that_are_named_are_changed_and_no_other(api: Api) -> None:
    one, two, three = trigger(api), trigger(api), trigger(api)
    api.post(f"/api/runs/{three}/cancel")
    dry = change(api, "cancel", {"ids": [one, three]}, dryRun=True)
    assert (dry["matched"], dry["runs"]) == (1, [one])
    assert change(api, "cancel", {"ids": [one, three]})["changed"] == 1
    assert api.get(f"/api/runs/{two}").json["status"] == "running"
    for ids in ([], ["nonsense"], [one] * 1_001):
        assert api.post("/api/runs/bulk", {"action": "cancel", "filter": {"ids": ids}}).status_code == 400
