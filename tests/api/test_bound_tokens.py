"""Tokens that are bound to networks, to a certificate and to a service, and what they may make, over HTTP."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WORKER, TokenBounds

if TYPE_CHECKING:
    from conftest import Api, Tokens

BASE = "http://localhost:3000"
PEM = ssl.DER_cert_to_PEM_cert(b"0\x82 a certificate")
OTHER_PEM = ssl.DER_cert_to_PEM_cert(b"0\x82 another one")
THUMBPRINT = hashlib.sha256(b"0\x82 a certificate").hexdigest()
SERVICE = {"kind": "http", "version": "1", "baseUrl": "http://127.0.0.1:4999", "tasks": []}


@pytest.fixture(scope="module")
def proxied(deployment: Deployment) -> Flask:
    """The API behind proxies in 10.0.0.0/8."""
    return create_app(replace(deployment.settings, trusted_proxies=("10.0.0.0/8",)), deployment)


def asked(
    app: Flask, token: str, peer: str = "127.0.0.1", path: str = "/api/runs", **headers: str
) -> TestResponse:
    sent = {"Authorization": f"Bearer {token}", "X-Tenant": "default"}
    sent |= {name.replace("_", "-"): text for name, text in headers.items()}
    return app.test_client().get(path, headers=sent, environ_overrides={"REMOTE_ADDR": peer})


def code(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "status"),
    [
        ("192.0.2.7", None, 200),
        ("198.51.100.1", None, 401),
        ("10.0.0.1", None, 401),
        ("10.0.0.1", "192.0.2.7", 200),
        ("10.0.0.1", "192.0.2.7, 198.51.100.1", 401),
        ("198.51.100.1", "192.0.2.7", 401),
        ("10.0.0.1", "192.0.2.7, junk", 401),
    ],
)
def test_a_token_of_a_network_is_refused_from_elsewhere(
    proxied: Flask, tokens: Tokens, peer: str, forwarded: str | None, status: int
) -> None:
    token = tokens.make(READ, bounds=TokenBounds(("192.0.2.0/24",)))
    headers = {"X_Forwarded_For": forwarded} if forwarded else {}
    answer = asked(proxied, token, peer, **headers)
    assert answer.status_code == status
    assert status == 200 or "TRUSTED_PROXIES" in answer.json["hint"]


def test_without_trusted_proxies_no_header_is_believed(app: Flask, tokens: Tokens) -> None:
    token = tokens.make(READ, bounds=TokenBounds(("192.0.2.0/24",)))
    assert asked(app, token, "127.0.0.1", X_Forwarded_For="192.0.2.7").status_code == 401
    bound = tokens.make(READ, bounds=TokenBounds(certificate=THUMBPRINT))
    assert asked(app, bound, "127.0.0.1", Client_Cert=quote(PEM)).status_code == 401


def test_a_token_of_a_certificate_needs_it_from_a_trusted_proxy(proxied: Flask, tokens: Tokens) -> None:
    token = tokens.make(READ, bounds=TokenBounds(certificate=THUMBPRINT))
    assert asked(proxied, token, "10.0.0.1", Client_Cert=quote(PEM)).status_code == 200
    for peer, headers in (
        ("10.0.0.1", {}),
        ("10.0.0.1", {"Client_Cert": quote(OTHER_PEM)}),
        ("10.0.0.1", {"Client_Cert": "junk"}),
        ("198.51.100.1", {"Client_Cert": quote(PEM)}),
    ):
        assert code(asked(proxied, token, peer, **headers)) == (401, "UNAUTHENTICATED")


def test_a_place_is_checked_with_each_request_also_of_what_was_verified_a_moment_ago(
    proxied: Flask, tokens: Tokens
) -> None:
    token = tokens.make(READ, bounds=TokenBounds(("192.0.2.0/24",)))
    statuses = [asked(proxied, token, peer).status_code for peer in ("192.0.2.7", "198.51.100.1") * 2]
    assert statuses == [200, 401, 200, 401]


def test_a_token_in_a_path_is_bound_too(proxied: Flask, tokens: Tokens) -> None:
    token = tokens.make(WORKER, bounds=TokenBounds(("192.0.2.0/24",)))
    answer = proxied.test_client().post(
        f"/w/default/{token}/api/services", json={"serviceId": "m", **SERVICE}
    )
    assert code(answer) == (401, "UNAUTHENTICATED")


def test_nobody_logs_in_with_a_token_from_elsewhere_or_uses_a_session_there(
    proxied: Flask, tokens: Tokens
) -> None:
    token = tokens.make(READ, bounds=TokenBounds(("192.0.2.0/24",)))
    http, own = proxied.test_client(), {"Sec-Fetch-Site": "same-origin"}

    def log_in(peer: str) -> TestResponse:
        return http.post(
            "/ui/login",
            base_url=BASE,
            data={"secret": token},
            headers=own,
            environ_overrides={"REMOTE_ADDR": peer},
        )

    refused = log_in("198.51.100.1")
    assert refused.status_code == 401 and "Set-Cookie" not in refused.headers
    assert log_in("192.0.2.7").status_code == 303
    for peer, status in (("192.0.2.7", 200), ("198.51.100.1", 401)):
        answer = http.get(
            "/api/runs",
            base_url=BASE,
            headers={**own, "X-Tenant": "default"},
            environ_overrides={"REMOTE_ADDR": peer},
        )
        assert answer.status_code == status


def test_health_tells_no_more_to_a_token_from_elsewhere(proxied: Flask, tokens: Tokens) -> None:
    token = tokens.make(READ, tenants=("*",), bounds=TokenBounds(("192.0.2.0/24",)))
    near, far = (asked(proxied, token, peer, "/health").json for peer in ("192.0.2.7", "198.51.100.1"))
    assert len(near) > len(far)


@pytest.fixture
def mailer(app: Flask, tokens: Tokens) -> Iterator[Any]:
    token = tokens.make(WORKER, bounds=TokenBounds(service_id="bound-mailer"))
    yield app.test_client(), {"Authorization": f"Bearer {token}", "X-Tenant": "default"}


@pytest.mark.parametrize("path", ["/api/services", "/api/register"])
def test_a_token_of_a_service_registers_this_service_only(mailer: Any, path: str) -> None:
    http, headers = mailer
    own = http.post(path, json={"serviceId": "bound-mailer", **SERVICE}, headers=headers)
    assert own.status_code == 200, own.text
    other = http.post(path, json={"serviceId": "another", **SERVICE}, headers=headers)
    assert code(other) == (403, "FORBIDDEN") and "bound-mailer" in other.json["detail"]
    query = "?baseUrl=http://127.0.0.1:4999"
    assert code(http.delete(f"/api/services/another/instances{query}", headers=headers)) == (403, "FORBIDDEN")
    assert http.delete(f"/api/services/bound-mailer/instances{query}", headers=headers).status_code == 200


def test_what_a_token_is_bound_to_is_told(api: Api, tokens: Tokens) -> None:
    admin = replace(api, token=tokens.make(ADMIN))
    wish = {"name": "bound", "scopes": ["worker"], "tenants": ["default"], "serviceId": "mailer"}
    wish |= {"networks": ["10.1.0.0/16", "10.2.3.4"], "certificate": THUMBPRINT.upper()}
    made = admin.post("/api/tokens", wish)
    assert made.status_code == 201, made.text
    bounds = {"networks": ["10.1.0.0/16", "10.2.3.4/32"], "certificate": THUMBPRINT, "serviceId": "mailer"}
    assert {name: made.json[name] for name in bounds} == bounds
    (listed,) = [each for each in admin.get("/api/tokens").json["tokens"] if each["id"] == made.json["id"]]
    assert {name: listed[name] for name in bounds} == bounds and listed["madeBySubject"] is None
    (row,) = [
        each
        for each in admin.get("/api/audit?verb=access.create_token").json["entries"]
        if each["object"] == "bound"
    ]
    assert row["given"]["networks"] == wish["networks"]
    assert row["after"][made.json["id"].lower()] if made.json["id"].lower() in row["after"] else row["after"]


@pytest.mark.parametrize(
    ("bounds", "wish", "field"),
    [
        (TokenBounds(("127.0.0.0/8",)), {"networks": ["0.0.0.0/0"]}, "networks"),
        (TokenBounds(("127.0.0.0/8",)), {"networks": ["10.1.2.3/8"]}, "networks"),
        (TokenBounds(), {"serviceId": "mailer"}, "serviceId"),
        (TokenBounds(), {"certificate": "abc"}, "certificate"),
        (TokenBounds(), {"name": "oidc:ann"}, "name"),
        (TokenBounds(), {"expiresAt": "2999-01-01T00:00:00Z"}, "expiresAt"),
    ],
)
def test_a_wish_beyond_the_makers_bounds_names_its_field(
    api: Api, tokens: Tokens, bounds: TokenBounds, wish: dict[str, Any], field: str
) -> None:
    admin = replace(api, token=tokens.make(ADMIN, bounds=bounds))
    refused = admin.post("/api/tokens", {"name": "n", "scopes": ["read"], "tenants": ["default"], **wish})
    assert refused.status_code == 400
    assert [each["field"] for each in refused.json["errors"]] == [field]


def test_an_administrator_of_a_network_makes_tokens_for_it_alone(api: Api, tokens: Tokens) -> None:
    admin = replace(api, token=tokens.make(ADMIN, bounds=TokenBounds(("127.0.0.0/8",))))
    made = admin.post("/api/tokens", {"name": "n", "scopes": ["admin"], "tenants": ["default"]}).json
    assert made["networks"] == ["127.0.0.0/8"] and made["expiresAt"] is not None
