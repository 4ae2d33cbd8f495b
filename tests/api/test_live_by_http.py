"""`GET /api/live` says when to look again, to those who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.api_samples import OTHER_TENANT, TENANT
from support.api_server import Server, running_api
from support.stream_reader import streaming

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ

if TYPE_CHECKING:
    from conftest import Api, Tokens
    from flask import Flask


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("live")) as server:
        yield server


def test_runs_and_views_are_announced(server: Server, tokens: Tokens, run_id: str) -> None:
    path = f"/api/live?run={run_id}&view=/runs%3Fstatus%3Drunning&view=/runs"
    with streaming(server.url, path, tokens.make(READ), TENANT) as stream:
        assert stream.status == 200
        heard: set[str] = set()
        while len(heard) < 3:
            found = stream.next()
            assert found is not None
            heard |= found.data.get("runs", {}).keys() | found.data.get("views", {}).keys()
    assert heard == {run_id, "/runs", "/runs?status=running"}


def test_a_run_of_another_tenant_is_not_found(reader: Api, neighbour: Api, run_id: str) -> None:
    assert neighbour.tenant == OTHER_TENANT
    assert neighbour.get("/api/live", run=run_id).status_code == 404


def test_a_page_that_is_not_there_is_not_found(reader: Api) -> None:
    answer = reader.get("/api/live", view="/nowhere")
    assert answer.status_code == 404
    assert answer.json["detail"] == "the dashboard has no page '/nowhere'"


def test_more_than_twenty_are_refused(reader: Api) -> None:
    answer = reader.http.get("/api/live", query_string={"view": ["/runs"] * 21}, headers=reader.headers)
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == "view"


def test_beyond_the_cap_a_page_is_told_to_poll(
    app: Flask, reader: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.extensions["pipeweave.live"], "_most", 0)
    answer = reader.get("/api/live", view="/runs")
    assert (answer.status_code, answer.json["code"]) == (503, "TOO_MANY_STREAMS")
    assert int(answer.headers["Retry-After"]) > 0
