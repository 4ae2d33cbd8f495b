"""Tokens, tenants and scopes at the door."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from flask import Flask
from werkzeug.datastructures import Headers

from pipeweave.api.http.auth import TOKEN_CACHE_S, Authenticator
from pipeweave.errors import Unauthenticated
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WORKER, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

TENANT = "default"
REGISTRATION = {"serviceId": "guest", "tasks": [{"id": "guest-task", "codeHash": "0" * 16}]}


def code(answer: object) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/health", "/api/openapi.json", "/docs"])
def test_health_and_the_document_are_open_to_everyone(app: Flask, path: str) -> None:
    assert app.test_client().get(path).status_code == 200


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer pw_unknown", "Bearer \u00e9"]
)
def test_a_request_without_a_good_token_is_refused(app: Flask, header: str | None) -> None:
    headers = {"X-Tenant": TENANT} | ({} if header is None else {"Authorization": header})
    answer = app.test_client().get("/api/runs", headers=headers)
    assert code(answer) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_the_token_is_looked_at_before_the_body(app: Flask) -> None:
    answer = app.test_client().post("/api/queue/task", data=b"{nonsense", headers={"X-Tenant": TENANT})
    assert answer.status_code == 401


def test_a_request_acts_for_the_only_tenant_of_its_token(app: Flask, tokens: Tokens) -> None:
    headers = {"Authorization": f"Bearer {tokens.make(READ)}"}
    assert app.test_client().get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("tenants", "told"),
    [
        ((TENANT, "neighbour"), f"{TENANT}, neighbour"),
        (("*",), "every tenant"),
        (("*", TENANT), "every tenant"),
    ],
)
def test_with_a_token_for_several_tenants_a_request_must_name_one(
    app: Flask, tokens: Tokens, tenants: tuple[str, ...], told: str
) -> None:
    headers = {"Authorization": f"Bearer {tokens.make(READ, tenants=tenants)}"}
    answer = app.test_client().get("/api/runs", headers=headers)
    assert code(answer) == (400, "TENANT_REQUIRED")
    assert told in answer.json["detail"]


def test_what_concerns_every_tenant_names_none(app: Flask, tokens: Tokens) -> None:
    headers = {"Authorization": f"Bearer {tokens.make(ADMIN, tenants=('*',))}"}
    assert app.test_client().get("/api/maintenance", headers=headers).status_code == 200


def test_a_wrong_tenant_is_answered_with_those_of_the_token(reader: Api) -> None:
    reader.tenant = "defualt"
    assert f"the token is valid for the tenant {TENANT}" in reader.get("/api/runs").json["hint"]


@pytest.mark.parametrize("tenant", ["neighbour", "nowhere"])
def test_a_tenant_that_is_not_yours_is_not_there(reader: Api, tenant: str) -> None:
    reader.tenant = tenant
    assert code(reader.get("/api/runs")) == (404, "NOT_FOUND")


def test_a_tenant_id_with_other_characters_is_refused(reader: Api) -> None:
    reader.tenant = "no spaces"
    assert code(reader.get("/api/runs")) == (400, "INVALID_ID")


def test_another_tenants_things_are_not_there(neighbour: Api, run_id: str, api: Api) -> None:
    task_run_id = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]["id"]
    paths = [
        f"/api/runs/{run_id}",
        f"/api/runs/{run_id}/task-runs",
        f"/api/runs/{run_id}/events",
        f"/api/task-runs/{task_run_id}",
        "/api/pipelines/files",
        "/api/pipelines/files/versions",
        "/api/tasks/count",
        "/api/tasks/count/history",
        "/api/tasks/count/input-schema",
        "/api/services/files",
        "/api/services/files/tasks",
    ]
    assert {path: neighbour.get(path).status_code for path in paths} == dict.fromkeys(paths, 404)
    for path in (
        f"/api/runs/{run_id}/cancel",
        f"/api/task-runs/{task_run_id}/cancel",
        "/api/pipelines/files/trigger",
        "/api/pipelines/files/dry-run",
    ):
        assert neighbour.post(path).status_code == 404
    assert neighbour.post("/api/queue/task", {"taskId": "count"}).status_code == 404
    assert neighbour.get("/api/runs").json["runs"] == []
    assert api.get(f"/api/runs/{run_id}").json["status"] == "running"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/queue/task"),
        ("POST", "/api/queue/batch"),
        ("PUT", "/api/pipelines/files"),
        ("POST", "/api/pipelines/files/trigger"),
        ("POST", "/api/services"),
        ("POST", "/api/register"),
        ("POST", "/api/runs/prun_00000000000000000000000000/cancel"),
        ("POST", "/api/task-runs/trun_00000000000000000000000001/cancel"),
    ],
)
def test_a_reader_changes_nothing(reader: Api, method: str, path: str) -> None:
    answer = reader.raw(method, path, b"{}")
    assert code(answer) == (403, "FORBIDDEN")
    assert "orchestrator:write" in answer.json["needed"]
    assert "write (it has read)" in answer.json["detail"].replace(" or worker", "")
    assert "token create NAME --scope" in answer.json["hint"]


def test_a_worker_registers_and_sees_nothing(worker: Api) -> None:
    assert worker.post("/api/services", REGISTRATION).status_code == 200
    assert worker.get("/api/runs").status_code == 403


def test_write_and_admin_tokens_may_read(app: Flask, tokens: Tokens) -> None:
    for scope in (WRITE, ADMIN):
        headers = {"Authorization": f"bearer {tokens.make(scope)}", "X-Tenant": TENANT}
        assert app.test_client().get("/api/runs", headers=headers).status_code == 200


def test_a_token_for_every_tenant_enters_each(app: Flask, tokens: Tokens) -> None:
    token = tokens.make(READ, tenants=("*",))
    for tenant in (TENANT, "neighbour"):
        headers = {"Authorization": f"Bearer {token}", "X-Tenant": tenant}
        assert app.test_client().get("/api/runs", headers=headers).status_code == 200


def test_a_revoked_token_is_refused_once_the_cache_has_forgotten_it(
    deployment: Deployment, tokens: Tokens
) -> None:
    now = 100.0
    authenticator = Authenticator(deployment.database, clock=lambda: now)
    with deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="to-revoke", tenants=[TENANT], scopes=[WORKER])
    headers = Headers({"Authorization": f"Bearer {token}", "X-Tenant": TENANT})
    assert authenticator.admit(headers, (WORKER,)).tenant == TENANT
    with deployment.database.transaction() as tx:
        access_tokens.revoke(tx, "to-revoke")
    now += TOKEN_CACHE_S
    with pytest.raises(Unauthenticated):
        authenticator.admit(headers, (WORKER,))
    assert timedelta(seconds=TOKEN_CACHE_S) <= timedelta(seconds=2)
