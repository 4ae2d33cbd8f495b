"""Workers over HTTP: listed, shown, drained and resumed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.factories import a_worker, register

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def tenant() -> str:
    return f"with-workers-{next(_numbers)}"


@pytest.fixture
def api(api: Api, tokens: Tokens, tenant: str) -> Api:
    api.token, api.tenant = tokens.make(READ, WRITE, ADMIN, tenants=(tenant,)), tenant
    return api


@pytest.fixture
def worker(deployment: Deployment, tenant: str) -> str:
    with deployment.database.transaction() as tx:
        register(tx, tenant, "count")
        return a_worker(tx, tenant, "count")


def test_a_worker_is_listed_drained_and_resumed(api: Api, worker: str) -> None:
    found = api.get("/api/workers").json
    assert [each["id"] for each in found["workers"]] == [worker]
    assert found["counts"]["running"] == 1
    drained = api.post(f"/api/workers/{worker}/drain", {"reason": "a new kernel"})
    assert (drained.status_code, drained.json["worker"]["state"]) == (200, "draining")
    assert api.get("/api/workers?state=draining").json["workers"][0]["drainReason"] == "a new kernel"
    assert api.post(f"/api/workers/{worker}/drain", {}).status_code == 200
    assert api.post(f"/api/workers/{worker}/resume", {}).json["worker"]["state"] == "running"
    assert api.post(f"/api/workers/{worker}/resume", {}).status_code == 409


def test_what_is_wrong_is_named(api: Api, worker: str, deployment: Deployment) -> None:
    assert api.get("/api/workers/nobody@host:1:ab").status_code == 404
    refused = api.get("/api/workers?state=sleeping")
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "state")
    refused = api.post(f"/api/workers/{worker}/drain", {"reason": 1, "until": "tomorrow"})
    assert {each["field"] for each in refused.json["errors"]} == {"reason", "until"}
    with deployment.database.transaction() as tx:
        worker_processes.stop(tx, worker)
    refused = api.post(f"/api/workers/{worker}/drain", {})
    assert (refused.status_code, refused.json["code"]) == (409, "CONFLICT")


def test_only_administrators_of_the_tenant_drain(api: Api, tokens: Tokens, tenant: str, worker: str) -> None:
    api.token = tokens.make(READ, WRITE, tenants=(tenant,))
    assert api.post(f"/api/workers/{worker}/drain", {}).status_code == 403
    api.token, api.tenant = tokens.make(READ, ADMIN, tenants=("another",)), "another"
    assert api.post(f"/api/workers/{worker}/drain", {}).status_code == 404
    assert api.get(f"/api/workers/{worker}").status_code == 404
