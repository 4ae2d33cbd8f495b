"""Webhooks of GitHub and Stripe, and what a trigger says about its pipeline when it is stored."""

from __future__ import annotations

import hashlib
import hmac
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
# From GitHub's documentation, with an umlaut of ours.
SECRET = "It's a Secret to Everybödy"
STRICT = SPEC | {
    "inputSchema": {
        "strict": True,
        "fields": [
            {"name": "folder", "label": "Folder", "type": "string", "required": True},
            {"name": "depth", "label": "Depth", "type": "number"},
        ],
    }
}


@pytest.fixture
def api(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """May read and write in a tenant of its own, with a strict pipeline."""
    api.tenant = f"others-{next(_numbers)}"
    api.token = tokens.make(READ, WRITE, tenants=(api.tenant,))
    with deployment.database.transaction() as tx:
        service_registration.register(tx, api.tenant, SERVICE)
        pipelines.store(tx, api.tenant, parse_spec(STRICT, id="strict"), source="api")
    return api


def put(api: Api, id: str = "orders", **body: Any) -> Any:
    given = {"kind": "webhook", "pipelineId": "strict", **body}
    return api.put(f"/api/triggers/{id}", given)


def deliver(api: Api, content: bytes, event: str) -> Any:
    mac = hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()
    sent = {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Event": event}
    path = api.get("/api/triggers/orders").json["path"]
    assert path == f"/api/webhooks/{api.tenant}/orders"
    return api.http.post(path, data=content, headers=sent, content_type="application/json")


def test_github_pings_a_strict_pipeline_with_the_secret_of_its_documentation(api: Api) -> None:
    assert put(api, scheme="github", secret=SECRET, input={"folder": "${input.body.ref}"}).status_code == 201
    ping = deliver(api, b'{"zen": "Speak like a human."}', "ping")
    assert (ping.status_code, ping.json["outcome"], ping.json["pipelineRunId"]) == (200, "ping", None)
    assert api.get("/api/triggers/orders").json["lastError"] is None
    assert deliver(api, b'{"ref": "main"}', "push").json["outcome"] == "started"
    api.post("/api/triggers/orders/pause")
    assert deliver(api, b'{"zen": "Keep it simple."}', "ping").json["outcome"] == "ping"


def test_who_asks_for_pings_gets_them(api: Api) -> None:
    asked = {"headers.x-github-event": ["ping", "push"]}
    put(api, scheme="github", secret=SECRET, filter=asked, input={"folder": "${input.body.zen}"})
    assert deliver(api, b'{"zen": "Speak like a human."}', "ping").json["outcome"] == "started"


@pytest.mark.parametrize("secret", ["s" * 15, " " + "s" * 20, "s" * 20 + " ", "s" * 20 + "\n", "s\t" * 20])
def test_secrets_that_were_copied_wrongly_are_refused(api: Api, secret: str) -> None:
    answer = put(api, secret=secret)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json["errors"]] == ["secret"]


@pytest.mark.parametrize(
    "input, warned",
    [
        (None, {"body", "headers", "deliveryId", "folder"}),
        ({"folder": "${input.body.folder}", "dept": 1}, {"dept"}),
        ({"folder": 7, "depth": "${input.body.depth}"}, {"folder"}),
        ({"folder": "${input.body.folder}"}, set()),
        ("${input.body}", set()),
    ],
)
def test_what_the_pipeline_will_refuse_is_told_when_a_trigger_is_stored(
    api: Api, input: Any, warned: set[str]
) -> None:
    stored = put(api, input=input)
    assert stored.status_code == 201
    assert {each["field"] for each in stored.json["warnings"]} == warned


def test_a_trigger_of_events_tells_what_the_pipeline_will_refuse(api: Api) -> None:
    stored = put(api, kind="event", on="pipeline-completed")
    assert {each["field"] for each in stored.json["warnings"]} == {"event", "folder"}


def test_a_header_that_the_run_does_not_get_is_refused(api: Api) -> None:
    wrong = put(
        api,
        filter={"headers.X-Shop": "berlin"},
        input={"folder": '${input.headers["x-city"]}', "all": "${input.headers}"},
        headers=["X-Shop"],
    )
    assert wrong.status_code == 400
    assert [each["field"] for each in wrong.json["errors"]] == ["filter.headers.X-Shop", "input.folder"]
