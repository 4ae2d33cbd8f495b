"""Bulk changes over HTTP: the dry run, the start, the progress, the stop."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import SERVICE, SPEC

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.operations import run_changes
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
    tenant = f"bulk-{next(_numbers)}"
    with deployment.database.transaction() as tx:
        service_registration.register(tx, tenant, SERVICE)
        for id in ("files", "others"):
            pipelines.store(tx, tenant, parse_spec(SPEC, id=id), source="api")
    api.token, api.tenant = tokens.make(READ, WRITE, tenants=(tenant,)), tenant
    return api


def trigger(api: Api, pipeline: str = "files") -> str:
    return str(api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"])


def test_a_dry_run_counts_and_the_bulk_change_follows(api: Api, deployment: Deployment) -> None:
    mine, other = [trigger(api) for _ in range(2)], trigger(api, "others")
    chosen = {"pipelineId": ["files"]}
    plan = api.post("/api/bulk", {"action": "cancel", "filter": chosen, "dryRun": True})
    assert plan.status_code == 200
    assert plan.json == {
        "isDryRun": True,
        "action": "cancel",
        "matched": 2,
        "isComplete": True,
        "skipped": 0,
        "byStatus": {"running": 2},
        "sample": list(reversed(mine)),
    }
    assert api.get("/api/bulk").json == {"bulkChanges": [], "nextCursor": None}
    begun = api.post("/api/bulk", {"action": "cancel", "filter": chosen, "reason": "the wrong day"})
    assert begun.status_code == 202
    assert (begun.json["status"], begun.json["total"], begun.json["changed"]) == ("running", 2, 0)
    path = f"/api/bulk/{begun.json['id']}"
    assert api.get(path).json == begun.json
    run_changes.run_once(deployment.database, deployment.values)
    done = api.get(path).json
    assert (done["status"], done["changed"], done["skipped"]) == ("completed", 2, 0)
    assert (done["reason"], done["filter"]) == ("the wrong day", chosen)
    assert api.get("/api/bulk").json["bulkChanges"] == [done]
    runs = api.get(f"{path}/runs").json["runs"]
    assert [(each["runId"], each["outcome"]) for each in runs] == [(each, "changed") for each in mine]
    assert api.get(f"{path}/runs?outcome=skipped").json["runs"] == []
    assert api.get(f"/api/runs/{other}").json["status"] == "running"
    stopped = api.post(f"{path}/cancel")
    assert (stopped.status_code, stopped.json["code"]) == (409, "CONFLICT")


def test_named_runs_that_are_not_concerned_are_told(api: Api) -> None:
    one, two = trigger(api), trigger(api)
    api.post(f"/api/runs/{two}/cancel")
    body = {"action": "cancel", "filter": {"ids": [one, two]}, "dryRun": True}
    plan = api.post("/api/bulk", body).json
    assert (plan["matched"], plan["skipped"], plan["sample"]) == (1, 1, [one])


def test_it_is_stopped(api: Api, deployment: Deployment) -> None:
    run = trigger(api)
    begun = api.post("/api/bulk", {"action": "cancel", "filter": {"ids": [run]}, "perSecond": 0.5}).json
    stopped = api.post(f"/api/bulk/{begun['id']}/cancel")
    assert (stopped.status_code, stopped.json["status"]) == (200, "cancelled")
    run_changes.run_once(deployment.database, deployment.values)
    assert api.get(f"/api/runs/{run}").json["status"] == "running"


def test_a_repeated_request_is_the_first(api: Api) -> None:
    body = {"action": "cancel", "filter": {"ids": [trigger(api)]}}
    api.sent["Idempotency-Key"] = "k1"
    first, second = (api.post("/api/bulk", body) for _ in range(2))
    assert (first.status_code, first.json["id"]) == (second.status_code, second.json["id"])
    assert len(api.get("/api/bulk").json["bulkChanges"]) == 1
    api.sent.clear()
    other = api.post("/api/bulk", {**body, "action": "pause", "idempotencyKey": "k1"})
    assert (other.status_code, other.json["code"]) == (409, "CONFLICT")


def test_all_mistakes_are_told_at_once(api: Api) -> None:
    def refused(body: dict[str, Any]) -> dict[str, str]:
        answer = api.post("/api/bulk", body)
        assert answer.status_code == 400, answer.json
        return {each["field"]: each["message"] for each in answer.json["errors"]}

    wrong = {"action": "stop", "filter": {"status": ["asleep"], "tag": "x"}, "limit": 100_001}
    assert set(refused(wrong)) == {"action", "filter.status[0]", "filter.tag", "limit"}
    unfit = {"action": "resume", "filter": {}, "reason": "x", "fromStep": "a", "version": "latest"}
    assert set(refused(unfit)) == {"filter", "reason", "fromStep", "version"}
    assert refused({"action": "cancel", "filter": {}})["filter"].startswith("needs a filter")


def test_nobody_sees_those_of_another_tenant(api: Api, tokens: Tokens) -> None:
    begun = api.post("/api/bulk", {"action": "cancel", "filter": {"ids": [trigger(api)]}}).json
    other = tokens.make(READ, WRITE, tenants=("elsewhere",))
    api.token, api.tenant = other, "elsewhere"
    for path in (f"/api/bulk/{begun['id']}", f"/api/bulk/{begun['id']}/runs"):
        assert api.get(path).status_code == 404
    assert api.post(f"/api/bulk/{begun['id']}/cancel").status_code == 404
    assert api.get("/api/bulk").json["bulkChanges"] == []


def test_a_token_that_only_reads_changes_nothing(api: Api, tokens: Tokens) -> None:
    run = trigger(api)
    api.token = tokens.make(READ, tenants=(api.tenant,))
    body = {"action": "cancel", "filter": {"ids": [run]}}
    assert api.post("/api/bulk", body).status_code == 403
    assert api.get("/api/bulk").status_code == 200
