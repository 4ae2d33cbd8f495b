"""Browsers: which origins may read answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask import Flask
from flask.testing import FlaskClient

from pipeweave.api import create_app
from pipeweave.orchestrator.deployment.deployment import Deployment

ORIGIN = "https://app.example.com"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT"}


def client_for(deployment: Deployment, *origins: str) -> FlaskClient:
    return create_app(replace(deployment.settings, cors_origins=origins), deployment).test_client()


def test_no_origin_is_allowed_by_default(app: Flask) -> None:
    answer = app.test_client().get("/health", headers={"Origin": ORIGIN})
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]


def test_a_configured_origin_may_read_answers_and_errors(deployment: Deployment) -> None:
    client = client_for(deployment, "https://other.example.com", ORIGIN)
    for path in ("/health", "/api/runs", "/nothing"):
        answer = client.get(path, headers={"Origin": ORIGIN})
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "Origin" in answer.headers["Vary"]
    stranger = client.get("/health", headers={"Origin": "https://evil.example.com"})
    assert "Access-Control-Allow-Origin" not in stranger.headers


def test_a_preflight_needs_no_token_and_names_methods_and_headers(deployment: Deployment) -> None:
    answer = client_for(deployment, ORIGIN).options("/api/pipelines/files", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
    allowed = answer.headers["Access-Control-Allow-Headers"]
    assert {"Authorization", "X-Tenant", "Content-Type"} <= set(allowed.split(", "))


@pytest.mark.parametrize("origin", [ORIGIN, "null"])
def test_a_star_allows_any_origin_and_never_credentials(deployment: Deployment, origin: str) -> None:
    answer = client_for(deployment, "*").get("/health", headers={"Origin": origin})
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
