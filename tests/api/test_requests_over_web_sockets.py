"""Requests as messages of a WebSocket: the same answers as over HTTP, refusals included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from flask import Flask
from support.api_samples import OTHER_TENANT, SPEC, TENANT
from werkzeug.test import EnvironBuilder

from pipeweave.api.http import SocketRequests, proxies, socket_requests
from pipeweave.api.routes import ENDPOINTS
from pipeweave.errors import TooManyRequests
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.queueing import tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.security import TokenBounds, sessions
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

Ask = Callable[..., dict[str, Any]]


def asking(app: Flask, /, **headers: str) -> Ask:
    """Asks over a WebSocket that was opened with these headers."""
    opened = EnvironBuilder(path="/api/ws", base_url="http://localhost", headers=headers).get_environ()
    opened["REMOTE_ADDR"] = "127.0.0.1"
    answer = SocketRequests(app, ENDPOINTS).of(opened)

    def ask(operation: Any, /, **members: Any) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(
            answer(orjson.dumps({"id": 7, "operation": operation} | members))
        )
        assert (found["event"], found["id"]) == ("answer", 7)
        return found

    return ask


@pytest.fixture
def ask(app: Flask, tokens: Tokens) -> Ask:
    """May read and write in TENANT."""
    return asking(app, Authorization=f"Bearer {tokens.make(READ, WRITE)}")


def refused(answer: dict[str, Any]) -> tuple[int, str, list[str]]:
    fields = [each["field"] for each in answer["body"].get("errors", [])]
    return answer["status"], answer["body"]["code"], fields


def test_a_pipeline_is_stored_triggered_and_read(ask: Ask, api: Api) -> None:
    assert ask("pipelines.put_pipeline", params={"id": "files"}, body=SPEC)["status"] in (200, 201)
    started = ask(
        "pipelines.trigger",
        params={"id": "files"},
        body={"input": {"folder": "/srv"}},
        headers={"idempotency-key": "over-a-socket", "X-Request-Id": "mine"},
    )
    assert (started["status"], started["headers"]["X-Request-Id"]) == (200, "mine")
    run_id = started["body"]["pipelineRunId"]
    again = ask(
        "pipelines.trigger",
        params={"id": "files"},
        body={"input": {"folder": "/srv"}},
        headers={"Idempotency-Key": "over-a-socket"},
    )
    assert again["body"]["pipelineRunId"] == run_id
    assert ask("runs.get_run", params={"id": run_id})["body"] == api.get(f"/api/runs/{run_id}").json
    listed = ask(
        "runs.list_runs", params={"pipelineId": "files", "limit": 1, "status": ["pending", "running"]}
    )
    assert (
        listed["body"]
        == api.get("/api/runs", pipelineId="files", limit=1, status=["pending", "running"]).json
    )
    assert ask("runs.cancel", params={"id": run_id}, body={})["status"] in (200, 202)


def test_a_change_of_an_administrator_stands_in_the_audit(app: Flask, tokens: Tokens) -> None:
    ask = asking(app, Authorization=f"Bearer {tokens.make(ADMIN, tenants=('*',))}")
    paused = ask("queue.pause", body={"reason": "over a socket"}, headers={"X-Tenant": OTHER_TENANT})
    assert paused["status"] == 200
    audit = ask("audit.list_entries", params={"verb": "queue.pause"}, headers={"X-Tenant": OTHER_TENANT})
    assert audit["body"]["entries"][0]["reason"] == "over a socket"
    assert ask("queue.resume", headers={"X-Tenant": OTHER_TENANT})["status"] == 200


def test_files_lines_and_streams_are_left_to_http(ask: Ask) -> None:
    others = [each for each in ENDPOINTS if not each.speaks_json]
    assert {"uploads.upload", "storage.get_object", "exports.export_runs", "stream.events"} <= {
        each.operation_id for each in others
    }
    for each in others:
        answer = ask(each.operation_id)
        assert refused(answer) == (400, "INVALID_INPUT", ["operation"])
        assert answer["body"]["errors"][0]["expected"] == f"use {each.method} {each.path}"


# --- refusals ---------------------------------------------------------------------------------------------


def test_a_token_without_the_scope_or_of_another_tenant_is_refused_as_over_http(
    app: Flask, tokens: Tokens, run_id: str
) -> None:
    reader = asking(app, Authorization=f"Bearer {tokens.make(READ)}")
    assert refused(reader("runs.cancel", params={"id": run_id}, body={}))[:2] == (403, "FORBIDDEN")
    stranger = asking(app, Authorization=f"Bearer {tokens.make(READ, tenants=(OTHER_TENANT,))}")
    assert refused(stranger("runs.get_run", params={"id": run_id}))[:2] == (404, "NOT_FOUND")
    to_another = stranger("runs.get_run", params={"id": run_id}, headers={"X-Tenant": TENANT})
    assert refused(to_another)[:2] == (404, "NOT_FOUND")
    assert refused(asking(app)("runs.list_runs"))[:2] == (401, "UNAUTHENTICATED")


def test_a_token_that_is_bound_to_a_place_or_a_certificate_keeps_to_it(app: Flask, tokens: Tokens) -> None:
    elsewhere = tokens.make(READ, bounds=TokenBounds(networks=("10.0.0.0/8",)))
    assert refused(asking(app, Authorization=f"Bearer {elsewhere}")("runs.list_runs"))[0] == 401
    token = tokens.make(READ, bounds=TokenBounds(certificate="ab" * 32))
    opened = EnvironBuilder(headers={"Authorization": f"Bearer {token}"}).get_environ()
    message = b'{"operation": "runs.list_runs"}'
    for certificate, status in (("ab" * 32, 200), ("cd" * 32, 401)):
        opened[proxies.CERTIFICATE] = certificate
        found = orjson.loads(SocketRequests(app, ENDPOINTS).of(opened)(message))
        assert (found["status"], found["id"]) == (status, None)


def test_a_page_of_another_site_cannot_ask_with_a_session(
    app: Flask, deployment: Deployment, tokens: Tokens
) -> None:
    session = sessions_secret(deployment, tokens)
    own = asking(app, Cookie=f"pipeweave-80={session}", Origin="http://localhost")
    assert own("queue.pause", body={"reason": "mine"})["status"] == 200
    assert own("queue.resume")["status"] == 200
    foreign = asking(app, Cookie=f"pipeweave-80={session}", Origin="http://evil.example")
    assert refused(foreign("runs.list_runs"))[:2] == (403, "CROSS_SITE")


def sessions_secret(deployment: Deployment, tokens: Tokens) -> str:
    with deployment.database.transaction() as tx:
        begun = sessions.begin_by_token(tx, tokens.make(READ, WRITE, ADMIN))
    assert begun is not None
    return begun.secret


def test_requests_count_for_the_rate_of_their_tenant(
    app: Flask, deployment: Deployment, tokens: Tokens
) -> None:
    deployment.database.run(
        lambda tx: tenant_limits.set_limits(tx, "socket-rate", TenantLimits(request_rate="2/h"))
    )
    ask = asking(app, Authorization=f"Bearer {tokens.make(READ, tenants=('socket-rate',))}")
    answers = [ask("runs.list_runs") for _ in range(3)]
    assert [each["status"] for each in answers] == [200, 200, 429]
    assert refused(answers[2])[1] == "QUOTA_EXCEEDED"
    assert int(answers[2]["headers"]["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"operation": "runs.get_rum"}, "operation"),
        ({"operation": "uploads.upload"}, "operation"),
        ({"operation": "stream.messages"}, "operation"),
        ({"operation": 7}, "operation"),
        ({"operation": "runs.get_run"}, "params.id"),
        ({"operation": "runs.get_run", "params": {"id": "prun_1/cancel"}}, "params.id"),
        ({"operation": "runs.get_run", "params": {"id": ["prun_1"]}}, "params.id"),
        ({"operation": "runs.list_runs", "params": {"limit": 0}}, "limit"),
        ({"operation": "runs.list_runs", "params": {"nothing": 1}}, "nothing"),
        ({"operation": "runs.list_runs", "body": {}}, "body"),
        ({"operation": "runs.list_runs", "headers": {"Authorization": "Bearer x"}}, "headers.Authorization"),
        ({"operation": "runs.list_runs", "headers": {"X-Tenant": "a\r\nb"}}, "headers.X-Tenant"),
        ({"operation": "runs.list_runs", "method": "GET"}, "method"),
    ],
)
def test_what_is_wrong_with_a_message_is_told(ask: Ask, members: dict[str, Any], field: str) -> None:
    rest = {name: value for name, value in members.items() if name != "operation"}
    status, code, fields = refused(ask(members["operation"], **rest))
    assert (status, code) == (400, "INVALID_INPUT")
    assert fields == [field]


def test_a_body_is_checked_as_over_http(ask: Ask) -> None:
    answer = ask("pipelines.put_pipeline", params={"id": "files"}, body={"steps": [{"id": 7}]})
    assert answer["status"] == 400
    assert any(each["field"].startswith("steps") for each in answer["body"]["errors"])
    missing = ask("pipelines.put_pipeline", params={"id": "files"})
    assert refused(missing)[0] in (400, 415)


@pytest.mark.parametrize(
    "message", [b"", b"hello", b"[]", b'{"id": 1', b'{"id": 1, "id": 2, "operation": "x"}']
)
def test_a_message_that_is_no_request_is_answered(app: Flask, message: bytes) -> None:
    answer = orjson.loads(SocketRequests(app, ENDPOINTS).of({})(message))
    assert answer["status"] == 400
    assert answer["body"]["code"] in ("MALFORMED_JSON", "INVALID_INPUT")


def test_who_sent_too_far_ahead_is_told_when_to_send_again() -> None:
    answer = orjson.loads(socket_requests.refusal(b'{"id": "a", "operation": 7}', TooManyRequests()))
    assert (answer["id"], answer["status"], answer["headers"]) == ("a", 429, {"Retry-After": "1"})


def test_an_answer_that_is_too_large_for_a_message_says_how_to_get_it(
    ask: Ask, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_requests, "MAX_ANSWER", 100)
    answer = ask("runs.get_run", params={"id": run_id})
    assert refused(answer)[:2] == (400, "LIMIT_EXCEEDED")
    assert "GET /api/runs/{id}" in answer["body"]["hint"]


def test_a_failure_of_ours_is_an_answer_without_its_reason(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("password")

    monkeypatch.setattr(SocketRequests, "_served", fail)
    answer = SocketRequests(app, ENDPOINTS).of({})(b'{"id": "a", "operation": "runs.list_runs"}')
    assert b"password" not in answer
    assert orjson.loads(answer)["status"] == 500
