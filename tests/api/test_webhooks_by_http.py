"""Webhooks over HTTP: stored, signed, delivered once; forged, late, huge and repeated ones refused."""

from __future__ import annotations

import hashlib
import hmac
import io
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import SERVICE, SPEC
from support.concurrency import call_concurrently

from pipeweave import webhooks
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.orchestrator.starts.triggers import storing
from pipeweave.spec.document import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens
    from flask import Flask

_numbers = itertools.count(1)
SECRET = "s" * 40


@pytest.fixture
def api(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """May read and write in a tenant of its own."""
    api.tenant = f"hooked-{next(_numbers)}"
    api.token = tokens.make(READ, WRITE, tenants=(api.tenant,))
    with deployment.database.transaction() as tx:
        service_registration.register(tx, api.tenant, SERVICE)
        pipelines.store(tx, api.tenant, parse_spec(SPEC, id="files"), source="api")
    return api


def put(api: Api, id: str = "orders", **body: Any) -> Any:
    given = {"kind": "webhook", "pipelineId": "files", "secret": SECRET, **body}
    return api.put(f"/api/triggers/{id}", {name: value for name, value in given.items() if value is not None})


def now(api: Api) -> int:
    return int(api.http.application.extensions["pipeweave"].database.now().timestamp())


def deliver(
    api: Api, content: bytes = b'{"id": 7}', *, secret: str = SECRET, late: int = 0, **headers: str
) -> Any:
    """Send a delivery as somebody who has nothing but the secret."""
    signed = webhooks.sign(secret, now(api) - late, content)
    named = {webhooks.HEADER: signed, **{name.replace("_", "-"): text for name, text in headers.items()}}
    return send(api, content, named)


def send(api: Api, content: bytes, headers: dict[str, str], id: str = "orders") -> Any:
    path = f"/api/webhooks/{api.tenant}/{id}"
    return api.http.post(path, data=content, headers=headers, content_type="application/json")


def stored(api: Api) -> tuple[int, int]:
    """Runs and fires of the tenant."""
    with api.http.application.extensions["pipeweave"].database.transaction() as tx:
        counted = (
            "SELECT (SELECT count(*) FROM runs WHERE tenant_id = :tenant),"
            " (SELECT count(*) FROM trigger_fires WHERE tenant_id = :tenant)"
        )
        runs, fires = tx.execute(counted, {"tenant": api.tenant}).one()
        return runs, fires


# --- storing ----------------------------------------------------------------------------------------------


def test_a_secret_is_made_shown_once_and_stored_encrypted(api: Api) -> None:
    made = put(api, secret=None)
    assert made.status_code == 201
    secret = made.json["secret"]
    assert len(secret) >= 32
    assert deliver(api, secret=secret).status_code == 200
    changed = put(api, secret=None, maxPerMinute=5)
    assert (changed.status_code, changed.json["secret"]) == (200, None)
    shown = api.get("/api/triggers/orders")
    with api.http.application.extensions["pipeweave"].database.transaction() as tx:
        row = tx.execute("SELECT * FROM triggers WHERE tenant_id = :tenant", {"tenant": api.tenant}).one()
    assert secret not in shown.text + str(tuple(row))
    assert deliver(api, b'{"id": 8}', secret=secret).status_code == 200


def test_triggers_are_listed_and_deleted(api: Api) -> None:
    for name in ("c", "a", "b"):
        put(api, name)
    first = api.get("/api/triggers?limit=2&kind=webhook&pipelineId=files").json
    assert [each["id"] for each in first["triggers"]] == ["a", "b"]
    second = api.get(f"/api/triggers?limit=2&kind=webhook&pipelineId=files&cursor={first['nextCursor']}").json
    assert ([each["id"] for each in second["triggers"]], second["nextCursor"]) == (["c"], None)
    assert api.delete("/api/triggers/a").json == {"id": "a", "deleted": True}
    assert api.get("/api/triggers/a").status_code == api.delete("/api/triggers/a").status_code == 404


def test_all_mistakes_are_named_at_once_and_nothing_is_stored(api: Api) -> None:
    wrong = put(api, secret="short", scheme="own", headers=["Cookie"], maxPerMinute=0)
    assert wrong.status_code == 400
    fields = {each["field"] for each in wrong.json["errors"]}
    assert fields == {"secret", "scheme", "headers[0]", "maxPerMinute"}
    wrong = put(api, filter={"event.x": 1, "body.a": {}}, input={"a": "${input.event}", "b": "${nothing}"})
    assert wrong.status_code == 400
    fields = {each["field"] for each in wrong.json["errors"]}
    assert fields == {"filter.event.x", "filter.body.a", "input.a", "input.b"}
    assert put(api, pipelineId="unknown").status_code == 404
    assert api.get("/api/triggers/orders").status_code == 404


def test_a_tenant_has_a_bounded_number_of_triggers(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "MAX_TRIGGERS", 1)
    assert put(api).status_code == 201
    assert put(api, "other").json["code"] == "LIMIT_EXCEEDED"
    assert put(api).status_code == 200


def test_a_new_secret_is_valid_beside_the_old_one_for_a_while(api: Api) -> None:
    put(api)
    rotated = api.post("/api/triggers/orders/rotate").json
    assert rotated["oldSecretUntil"] is not None
    assert deliver(api, b"1", secret=rotated["secret"]).status_code == 200
    assert deliver(api, b"2").status_code == 200
    given = api.post("/api/triggers/orders/rotate", {"secret": "t" * 32, "overlapSeconds": 0}).json
    assert (given["secret"], given["oldSecretUntil"]) == (None, None)
    assert deliver(api, b"3", secret="t" * 32).status_code == 200
    assert deliver(api, b"4", secret=rotated["secret"]).status_code == 401
    assert api.post("/api/triggers/unknown/rotate").status_code == 404


def test_a_trigger_of_events_is_stored_and_changed(api: Api) -> None:
    given = {"kind": "event", "pipelineId": "files", "on": "pipeline-completed"}
    stored = api.put("/api/triggers/after", {**given, "filter": {"pipelineId": "other", "status": "failed"}})
    assert (stored.status_code, stored.json["secret"], stored.json["scheme"]) == (201, None, None)
    assert stored.json["on"] == "pipeline-completed"
    assert api.put("/api/triggers/after", {**given, "on": "task-completed"}).status_code == 200
    assert api.put("/api/triggers/after", {"kind": "webhook", "pipelineId": "files"}).status_code == 409
    assert [each["id"] for each in api.get("/api/triggers?kind=event").json["triggers"]] == ["after"]
    assert api.post("/api/triggers/after/rotate").status_code == 404
    # A delivery to it is one to nobody.
    assert send(api, b"{}", {}, "after").status_code == 401
    assert api.delete("/api/triggers/after").status_code == 200


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"on"}),
        ({"on": "pipeline-completed", "scheme": "github", "headers": ["a"]}, {"scheme", "headers"}),
        (
            {"on": "pipeline-completed", "filter": {"status": "timeout", "x": 1}},
            {"filter.status", "filter.x"},
        ),
        ({"on": "pipeline-completed", "filter": {"pipelineId": ["files"]}}, {"filter.pipelineId"}),
        ({"on": "task-completed", "input": "${input.body}"}, {"input"}),
        ({"kind": "webhook", "on": "task-completed", "allowSelf": True}, {"on", "allowSelf"}),
    ],
)
def test_the_mistakes_of_a_trigger_of_events_are_named(
    api: Api, body: dict[str, Any], fields: set[str]
) -> None:
    answer = api.put("/api/triggers/after", {"kind": "event", "pipelineId": "files", **body})
    assert answer.status_code == 400
    assert {each["field"] for each in answer.json["errors"]} == fields


# --- deliveries -------------------------------------------------------------------------------------------


def test_a_delivery_starts_a_run_that_says_what_began_it(api: Api) -> None:
    put(api, input={"folder": "${input.body.folder}", "from": "${input.headers}"}, headers=["X-Shop"])
    done = deliver(api, b'{"folder": "/srv"}', X_Shop="berlin", X_PipeWeave_Delivery="d-1").json
    assert (done["outcome"], done["isRepeated"], done["deliveryId"]) == ("started", False, "d-1")
    run = api.get(f"/api/runs/{done['pipelineRunId']}").json
    assert run["triggeredBy"] == {"kind": "webhook", "id": "orders", "actor": "d-1"}
    assert run["input"] == {"folder": "/srv", "from": {"x-shop": "berlin"}}
    found = api.get("/api/triggers/orders").json
    assert [each["key"] for each in found["lastFires"]] == ["d-1"]
    assert found["lastFires"][0]["runId"] == done["pipelineRunId"]


def test_the_same_delivery_gets_the_same_run(api: Api) -> None:
    put(api)
    first = deliver(api, X_PipeWeave_Delivery="d-1")
    content, headers = b'{"id": 7}', {webhooks.HEADER: webhooks.sign(SECRET, now(api), b'{"id": 7}')}
    again = deliver(api, X_PipeWeave_Delivery="d-1", late=20)
    assert again.json == {**first.json, "isRepeated": True}
    # A copied delivery with another id: its signature is known.
    other = send(api, b"[]", signed := {webhooks.HEADER: webhooks.sign(SECRET, now(api) - 9, b"[]")})
    copied = send(api, b"[]", {**signed, webhooks.DELIVERY: "d-2"})
    assert copied.json == {**other.json, "isRepeated": True}
    assert stored(api) == (2, 2)
    assert send(api, content, headers | {webhooks.DELIVERY: "d 3"}).status_code == 400


def test_the_same_delivery_many_times_at_once_starts_one_run(api: Api, app: Flask) -> None:
    put(api)
    headers = {webhooks.HEADER: webhooks.sign(SECRET, now(api), b"{}")}
    path = f"/api/webhooks/{api.tenant}/orders"

    def once() -> Any:
        return app.test_client().post(path, data=b"{}", headers=headers, content_type="application/json")

    answers = [each.result.json for each in call_concurrently(*[once] * 4)]
    assert len({each["pipelineRunId"] for each in answers}) == 1
    assert sorted(each["isRepeated"] for each in answers) == [False, True, True, True]
    assert stored(api) == (1, 1)


def test_another_body_under_a_known_id_is_refused_and_counted(api: Api) -> None:
    put(api)
    first = deliver(api, b'{"id": 7, "shop": "berlin"}', X_PipeWeave_Delivery="d-1")
    changed = deliver(api, b'{"id": 8}', X_PipeWeave_Delivery="d-1")
    assert (changed.status_code, changed.json["code"]) == (409, "DELIVERY_ID_REUSED")
    found = api.get("/api/triggers/orders").json
    assert (found["reusedIds"], found["lastError"]["code"]) == (1, "DELIVERY_ID_REUSED")
    # The same content in another spelling is the same delivery.
    again = deliver(api, b'{"shop":"berlin","id":7}', late=5, X_PipeWeave_Delivery="d-1")
    assert again.json == {**first.json, "isRepeated": True}
    assert stored(api) == (1, 1)


def test_a_delivery_from_before_bodies_were_kept_is_repeated(api: Api, deployment: Deployment) -> None:
    put(api)
    first = deliver(api, X_PipeWeave_Delivery="d-1")
    with deployment.database.transaction() as tx:
        forget = "UPDATE trigger_fires SET body_hash = NULL WHERE tenant_id = :tenant"
        tx.execute(forget, {"tenant": api.tenant})
    assert deliver(api, b"[]", X_PipeWeave_Delivery="d-1").json == {**first.json, "isRepeated": True}


@pytest.mark.parametrize("late", [-301, 301, 10_000])
def test_what_is_too_late_or_too_early_is_refused(api: Api, late: int) -> None:
    put(api)
    assert deliver(api, late=late).status_code == 401
    assert deliver(api, late=290 if late > 0 else -290).status_code == 200


def test_an_unknown_trigger_answers_as_a_wrong_signature_does_and_nothing_is_stored(api: Api) -> None:
    put(api)
    good = webhooks.sign(SECRET, now(api), b"{}")
    wrong = [
        send(api, b"{}", {webhooks.HEADER: good}, id="unknown"),
        send(api, b"{ }", {webhooks.HEADER: good}),
        send(api, b"{}", {}),
        send(api, b"{}", {webhooks.HEADER: f"{good} "}),
        send(api, b"{}", {webhooks.HEADER: f"t={'9' * 400},v1=x"}),
        send(api, b"not json", {webhooks.HEADER: good}),
        deliver(api, b"{}", secret="x" * 40),
    ]
    assert {each.status_code for each in wrong} == {401}
    assert len({each.text for each in wrong}) == 1
    assert stored(api) == (0, 0)
    assert api.get("/api/triggers/orders").json["lastFireAt"] is None


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}', b"[" * 300, b'"\\u0000"'])
def test_a_signed_body_that_is_no_json_is_refused(api: Api, content: bytes) -> None:
    put(api)
    assert deliver(api, content).status_code == 400
    assert stored(api) == (0, 0)


def test_a_huge_body_is_refused_before_its_signature_is_looked_at(api: Api) -> None:
    put(api)
    assert deliver(api, b" " * (256 * 1024 - 1) + b"1").status_code == 200
    assert deliver(api, b" " * (256 * 1024) + b"1").status_code == 413
    assert stored(api) == (1, 1)


def test_a_huge_body_without_a_length_is_refused(api: Api) -> None:
    put(api)
    content = io.BytesIO(b" " * 10_000_000)
    chunked = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    path = f"/api/webhooks/{api.tenant}/orders"
    answer = api.http.open(path, method="POST", input_stream=content, environ_overrides=chunked)
    assert answer.status_code == 413
    assert content.tell() < 1_000_000


def test_a_filter_lets_some_deliveries_start_nothing(api: Api) -> None:
    put(
        api,
        filter={"body.action": ["opened", "moved"], "body.count": 1, "headers.x-shop": "b"},
        headers=["x-shop"],
    )
    for content in (b'{"action": "closed", "count": 1}', b'{"action": "opened", "count": true}', b"[]"):
        done = deliver(api, content, X_Shop="b").json
        assert (done["outcome"], done["pipelineRunId"]) == ("filtered", None)
    assert deliver(api, b'{"action": "moved", "count": 1}', X_Shop="b").json["outcome"] == "started"
    assert stored(api) == (1, 1)


def test_a_paused_trigger_refuses_and_resumes(api: Api) -> None:
    put(api)
    assert api.post("/api/triggers/orders/pause").json["paused"] is True
    assert deliver(api).status_code == 409
    put(api)
    assert deliver(api).status_code == 409
    resumed = api.post("/api/triggers/orders/resume").json
    assert (resumed["paused"], resumed["lastError"]) == (False, None)
    assert deliver(api).status_code == 200


def test_more_deliveries_than_a_trigger_takes_are_refused_but_not_repeated_ones(api: Api) -> None:
    put(api, maxPerMinute=2)
    answers = [deliver(api, b"%d" % each, X_PipeWeave_Delivery=f"d{each}") for each in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 429, 429]
    assert answers[-1].headers["Retry-After"]
    assert deliver(api, b"0", X_PipeWeave_Delivery="d0").json["isRepeated"]


def test_a_run_that_cannot_start_is_noted_and_its_delivery_may_come_again(api: Api) -> None:
    put(api, input={"folder": "${input.body.folder}"})
    assert deliver(api, b'{"id": 1}', X_PipeWeave_Delivery="d1").status_code == 400
    assert api.get("/api/triggers/orders").json["lastError"]["code"] == "INVALID_INPUT"
    put(api)
    assert deliver(api, b'{"id": 1}', X_PipeWeave_Delivery="d1").json["outcome"] == "started"
    assert api.get("/api/triggers/orders").json["lastError"] is None


def test_github_and_stripe_sign_in_their_own_way(api: Api) -> None:
    put(api, scheme="github", filter={"headers.x-github-event": "push"})
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    sent = {"X-Hub-Signature-256": f"sha256={mac}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "g-1"}
    assert send(api, body, sent).json["deliveryId"] == "g-1"
    assert send(api, body, sent | {"X-GitHub-Delivery": "g-2"}).json["isRepeated"]
    put(api, "paid", scheme="stripe")
    body = b'{"id": "evt_1", "type": "charge.succeeded"}'
    at = now(api)
    mac = hmac.new(SECRET.encode(), b"%d.%s" % (at, body), hashlib.sha256).hexdigest()
    header = {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={mac},v0={'1' * 64}"}
    assert send(api, body, header, "paid").json["deliveryId"] == "evt_1"
    assert send(api, body, {"X-PipeWeave-Signature": header["Stripe-Signature"]}, "paid").status_code == 401


def test_a_secret_that_cannot_be_read_is_in_the_log_alone(
    api: Api, deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    put(api)
    change = "UPDATE triggers SET secret = 'AAAA' || secret WHERE tenant_id = :tenant"
    with deployment.database.transaction() as tx:
        tx.execute(change, {"tenant": api.tenant})
    assert deliver(api).status_code == 401
    assert [each.message for each in caplog.records] == ["webhook.secret_unreadable"]
