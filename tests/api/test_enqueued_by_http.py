"""The list of enqueued runs over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ

if TYPE_CHECKING:
    from conftest import Api, Tokens

_ENQUEUE = (
    "INSERT INTO enqueued_runs (tenant_id, pipeline_id, due_at) VALUES (:tenant, 'charge', '2100-01-01')"
)


def test_what_waits_is_listed_for_its_tenant(api: Api, tokens: Tokens, deployment: Deployment) -> None:
    tenant = "enqueued-by-http"
    api.token, api.tenant = tokens.make(READ, tenants=(tenant,)), tenant
    with deployment.database.transaction() as tx:
        tx.execute(_ENQUEUE, {"tenant": tenant})
    found = api.get("/api/enqueued").json
    [row] = found["enqueuedRuns"]
    assert (row["pipelineId"], row["tries"], found["waiting"], found["refused"]) == ("charge", 0, 1, 0)
    assert api.get(f"/api/runs/{row['id']}").json["code"] == "RUN_ENQUEUED"
    assert api.get("/api/enqueued?status=refused").json["enqueuedRuns"] == []
    wrong = api.get("/api/enqueued?status=gone&limit=0")
    assert {each["field"] for each in wrong.json["errors"]} == {"status", "limit"}
    with deployment.database.transaction() as tx:
        tx.execute("DELETE FROM enqueued_runs WHERE tenant_id = :tenant", {"tenant": tenant})
