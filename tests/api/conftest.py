"""The API in this process, on a real PostgreSQL and Valkey, with a tenant that has a service."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from support.api_samples import OTHER_TENANT, SERVICE, SPEC, TENANT
from support.patient_ticks import patient_ticks as patient_ticks
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import READ, WORKER, WRITE
from pipeweave.settings import Settings


@pytest.fixture(scope="session")
def deployment(
    database_url: str, broker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    data_dir = str(tmp_path_factory.mktemp("api-data"))
    deployment = Deployment.open(
        Settings(
            database_url=database_url,
            broker_url=broker_url,
            data_dir=data_dir,
            secret_key="5e" * 32,
            dispatch_networks=("loopback",),
        )
    )
    with deployment.database.transaction() as tx:
        tenants.ensure_tenant(tx, OTHER_TENANT)
        service_registration.register(tx, TENANT, SERVICE)
    yield deployment
    deployment.close()


@pytest.fixture(scope="session")
def app(deployment: Deployment) -> Flask:
    app = create_app(deployment.settings, deployment)
    app.test_client_class = Checked
    return app


class Checked(FlaskClient):
    """Holds every answer against what the OpenAPI document says of its operation and status."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        answer = super().open(*args, **kwargs)
        request = answer.request
        try:
            operation_id, _ = self.application.url_map.bind("").match(request.path, request.method)
        except HTTPException:
            return answer
        document = self.application.extensions["pipeweave.openapi"]()
        for item in document["paths"].values():
            operation = item.get(request.method.lower(), {})
            if operation.get("operationId") == operation_id:
                _hold_against(document, operation, answer)
        return answer


def _hold_against(document: dict[str, Any], operation: dict[str, Any], answer: TestResponse) -> None:
    described = operation["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = document["components"]["responses"][described["$ref"].rpartition("/")[2]]
    if "content" not in described or (
        answer.mimetype not in described["content"] and "*/*" in described["content"]
    ):
        return
    if answer.mimetype in ("application/x-ndjson", "text/plain", "application/openmetrics-text"):
        assert answer.mimetype in described["content"]
        return
    schema = described["content"][answer.mimetype]["schema"]
    is_packed = answer.headers.get("Content-Encoding") == "gzip"
    content = orjson.loads(gzip.decompress(answer.data)) if is_packed else answer.json
    Draft202012Validator({**schema, "components": document["components"]}).validate(content)


@dataclass
class Api:
    """Asks the app in the name of a tenant, with a token of these scopes."""

    http: FlaskClient
    token: str
    tenant: str = TENANT
    sent: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **query: Any) -> TestResponse:
        return self.http.get(path, query_string=query or None, headers=self.headers)

    def post(self, path: str, body: Any = None) -> TestResponse:
        return self.http.post(path, json={} if body is None else body, headers=self.headers)

    def put(self, path: str, body: Any) -> TestResponse:
        return self.http.put(path, json=body, headers=self.headers)

    def delete(self, path: str) -> TestResponse:
        return self.http.delete(path, headers=self.headers)

    def raw(
        self, method: str, path: str, content: bytes, content_type: str | None = "application/json"
    ) -> TestResponse:
        return self.http.open(
            path, method=method, data=content, content_type=content_type, headers=self.headers
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "X-Tenant": self.tenant, **self.sent}


class Tokens:
    """Makes tokens."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def make(self, *scopes: str, tenants: tuple[str, ...] = (TENANT,), **options: Any) -> str:
        with self.deployment.database.transaction() as tx:
            return access_tokens.create_token(tx, name="test", tenants=tenants, scopes=scopes, **options)


@pytest.fixture(scope="session")
def tokens(deployment: Deployment) -> Tokens:
    return Tokens(deployment)


@pytest.fixture
def api(app: Flask, tokens: Tokens) -> Api:
    """May read and write in TENANT."""
    return Api(app.test_client(), tokens.make(READ, WRITE))


@pytest.fixture
def reader(app: Flask, tokens: Tokens) -> Api:
    return Api(app.test_client(), tokens.make(READ))


@pytest.fixture
def worker(app: Flask, tokens: Tokens) -> Api:
    return Api(app.test_client(), tokens.make(WORKER))


@pytest.fixture
def neighbour(app: Flask, tokens: Tokens) -> Api:
    return Api(app.test_client(), tokens.make(READ, WRITE, tenants=(OTHER_TENANT,)), OTHER_TENANT)


@pytest.fixture
def pipeline(api: Api) -> str:
    """A stored pipeline: list_files -> count (a map) -> report."""
    assert api.put("/api/pipelines/files", SPEC).status_code in (200, 201)
    return "files"


@pytest.fixture
def run_id(api: Api, pipeline: str) -> str:
    """A run that nobody works on."""
    return str(
        api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {"folder": "/srv"}}).json["pipelineRunId"]
    )
