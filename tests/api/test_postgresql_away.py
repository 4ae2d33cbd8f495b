"""PostgreSQL is away in other ways than being down: its connections go silent, or it takes no writes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import urllib3
from support.api_samples import SERVICE, TENANT
from support.api_server import running_api
from support.servers import read_only

from chaos.proxy import proxy_to
from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import access_tokens
from pipeweave.settings import Settings
from pipeweave.up.postgres import Postgres

if TYPE_CHECKING:
    from conftest import Tokens

# The promise is 5 s for all of it; a machine that is busy with other things takes longer.
SOON_S = 30.0
WISH = {"taskId": "count", "input": {"path": "a"}}


def test_requests_go_on_soon_after_the_connections_to_postgresql_went_silent(
    deployment: Deployment, tokens: Tokens, postgres_server: Postgres, tmp_path: Path
) -> None:
    token = tokens.make(access_tokens.READ, access_tokens.WRITE)
    headers = {"Authorization": f"Bearer {token}", "X-Tenant": TENANT, "Content-Type": "application/json"}

    def ask(method: str, path: str, body: Any = None) -> int:
        content = None if body is None else orjson.dumps(body)
        return urllib3.request(
            method, api.url + path, body=content, headers=headers, retries=False, timeout=SOON_S
        ).status

    with proxy_to(postgres_server.port) as proxy:
        url = deployment.database.url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
        with running_api(replace(deployment.settings, database_url=url), tmp_path) as api:
            assert [ask("POST", "/api/queue/task", WISH), ask("GET", "/api/runs")] == [200, 200]
            began = time.monotonic()
            assert proxy.silence()
            codes = [ask("POST", "/api/queue/task", WISH), ask("GET", "/api/runs"), ask("GET", "/health")]
            assert set(codes) <= {200, 503}
            codes = [ask("POST", "/api/queue/task", WISH), ask("GET", "/api/runs"), ask("GET", "/health")]
            assert codes == [200, 200, 200]
            assert time.monotonic() - began < SOON_S


def test_while_postgresql_takes_no_writes_the_answer_is_503_and_then_they_go_on(
    fresh_database_url: str, broker_url: str, postgres_server: Postgres, tmp_path: Path
) -> None:
    deployment = Deployment.open(
        Settings(database_url=fresh_database_url, broker_url=broker_url, data_dir=str(tmp_path))
    )
    with deployment.database.transaction() as tx:
        service_registration.register(tx, TENANT, SERVICE)
        token = access_tokens.create_token(
            tx, name="test", tenants=[TENANT], scopes=[access_tokens.READ, access_tokens.WRITE]
        )
    client = create_app(deployment.settings, deployment).test_client()
    headers = {"Authorization": f"Bearer {token}", "X-Tenant": TENANT}

    def trigger() -> Any:
        return client.post("/api/queue/task", json=WISH, headers=headers)

    assert trigger().status_code == 200
    with read_only(postgres_server, fresh_database_url):
        answers = [trigger() for _ in range(4)]
        assert client.get("/api/runs", headers=headers).status_code == 200
    assert {(each.status_code, each.json["code"]) for each in answers} == {(503, "UNAVAILABLE")}
    assert all(each.headers["Retry-After"] for each in answers)
    assert trigger().status_code == 200
    deployment.close()
