"""A path has one spelling, so that the rules of a proxy for paths hold for the API, too."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from flask import Flask

if TYPE_CHECKING:
    from conftest import Api


@pytest.mark.parametrize(
    "path",
    [
        "//api/runs",
        "///api/info",
        "/api//runs",
        "/%2fapi/runs",
        "/api%2Fruns",
        "/%61pi/runs",
        "/api/%72uns",
        "/api/pipelines/%2e%2e",
    ],
)
def test_another_spelling_of_a_path_leads_nowhere(api: Api, path: str) -> None:
    # As gunicorn gives it; the test's client would tidy it up.
    given = {"RAW_URI": path, "PATH_INFO": unquote(path)}
    answer = api.http.open("/", headers=api.headers, environ_overrides=given)
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")


def test_characters_that_clients_encode_may_be_encoded(api: Api) -> None:
    document = {"steps": [{"task": "count"}]}
    assert api.put("/api/pipelines/a:b@c~d", document).status_code in (200, 201)
    assert api.get("/api/pipelines/a%3Ab%40c%7Ed").status_code == 200


@pytest.mark.parametrize("name", [".", "..", "..."])
def test_an_id_of_dots_alone_is_refused(api: Api, name: str) -> None:
    document = {"steps": [{"task": "count"}]}
    assert api.put(f"/api/pipelines/{name}", document).json["code"] == "INVALID_ID"
    answer = api.put("/api/pipelines/dotted", {"steps": [{"id": name, "task": "count"}]})
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (400, "invalid_id")
    assert api.post("/api/queue/task", {"taskId": name}).status_code == 400
    registration = {"serviceId": name, "tasks": []}
    assert api.post("/api/services", registration).status_code == 400


def test_a_request_in_http_1_1_names_its_host(app: Flask) -> None:
    client = app.test_client()
    answer = client.get("/health", environ_overrides={"HTTP_HOST": ""})
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_INPUT")
    old = {"HTTP_HOST": "", "SERVER_PROTOCOL": "HTTP/1.0"}
    assert client.get("/health", environ_overrides=old).status_code == 200
