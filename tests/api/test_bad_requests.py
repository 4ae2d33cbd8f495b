"""Everything that can be wrong with a request gets a problem document that says what and where."""

from __future__ import annotations

import base64
import logging
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.size_limits import MAX_BATCH, MAX_BODY_BYTES

if TYPE_CHECKING:
    from conftest import Api

QUEUE = "/api/queue/task"


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), answer.data
    document: dict[str, Any] = answer.json
    assert document["code"] == code
    assert document["status"] == status
    assert document["type"] == f"urn:pipeweave:problem:{code}"
    return document


def fields(answer: Any) -> dict[str, str]:
    return {each["field"]: each["message"] for each in answer.json["errors"]}


# --- paths and methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/nothing", "/api/runs/", "/api//runs", "/nothing", "/api/tasks/a%2Fb"])
def test_an_unknown_path_or_id_is_a_problem_document(api: Api, path: str) -> None:
    problem(api.get(path), 404, "NOT_FOUND")


def test_a_wrong_method_says_which_are_right(api: Api) -> None:
    answer = api.delete("/api/pipelines/files")
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, PUT"


@pytest.mark.parametrize("name", ["a b", "a%00b", "%C3%A9", "a'b", "x" * 201])
def test_an_id_with_other_characters_is_refused(api: Api, name: str) -> None:
    problem(api.get(f"/api/pipelines/{name}"), 400, "INVALID_ID")
    problem(api.put(f"/api/pipelines/{name}", {"steps": [{"task": "count"}]}), 400, "INVALID_ID")


@pytest.mark.parametrize("run_id", ["1", "prun_", "trun_00000000000000000000000000", "prun_" + "z" * 26])
def test_a_run_id_that_cannot_be_is_not_there(api: Api, run_id: str) -> None:
    problem(api.get(f"/api/runs/{run_id}"), 404, "NOT_FOUND")


# --- bodies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/xml", "multipart/form-data"])
def test_a_body_must_be_declared_as_json(api: Api, content_type: str | None) -> None:
    problem(api.raw("POST", QUEUE, b'{"taskId": "count"}', content_type), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_an_absent_body_is_refused_where_one_is_needed(api: Api) -> None:
    problem(api.raw("POST", QUEUE, b""), 400, "MALFORMED_JSON")


@pytest.mark.parametrize("path", ["/api/pipelines/files/dry-run"])
def test_an_absent_body_is_fine_where_nothing_must_be_said(api: Api, pipeline: str, path: str) -> None:
    assert api.raw("POST", path, b"", None).status_code == 200
    assert api.raw("POST", path, b"").status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"{'a': 1}",
        b'{"taskId": "count",}',
        b"\xff\xfe",
        b'{"taskId": "\xc3("}',
        b'\xef\xbb\xbf{"taskId": "count"}',
        b'{"taskId": "count", "input": "\\ud800"}',
        b'{"taskId": "count", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"taskId": "count", "input": 1' + b"0" * 5000 + b"}",
    ],
)
def test_a_body_that_is_not_json_is_refused(api: Api, content: bytes) -> None:
    problem(api.raw("POST", QUEUE, content), 400, "MALFORMED_JSON")


@pytest.mark.parametrize("content", [b"[]", b"1", b'"text"', b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(api: Api, content: bytes) -> None:
    for path in (QUEUE, "/api/pipelines/files/trigger", "/api/pipelines/files/dry-run"):
        problem(api.raw("POST", path, content), 400, "INVALID_INPUT")
    problem(api.raw("PUT", "/api/pipelines/files", content), 400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b'"a\\u0000b"', "input"),
        (b'{"deep": [1, {"x": "\\u0000"}]}', "input.deep[1].x"),
        (b'{"a\\u0000": 1}', "input"),
        (b"NaN", "input"),
        (b"[-Infinity]", "input[0]"),
        (b"[1e999]", "input[0]"),
        (b"18446744073709551616", "input"),
        (b"-9223372036854775809", "input"),
    ],
)
def test_values_that_postgresql_cannot_store_are_refused_with_their_field(
    api: Api, value: bytes, field: str
) -> None:
    answer = api.raw("POST", QUEUE, b'{"taskId": "count", "input": ' + value + b"}")
    problem(answer, 400, "INVALID_INPUT")
    assert list(fields(answer)) == [field]


@pytest.mark.parametrize(
    "value",
    [b"18446744073709551615", b"-9223372036854775808", b'"\\\\u0000"', b"1e300", b'"12345678901234567890"'],
)
def test_the_largest_numbers_and_texts_that_look_odd_are_taken(api: Api, value: bytes) -> None:
    assert api.raw("POST", QUEUE, b'{"taskId": "count", "input": ' + value + b"}").status_code == 200


def test_an_unknown_field_gets_the_nearest_right_name(api: Api, pipeline: str) -> None:
    answer = api.post("/api/pipelines/files/trigger", {"input": {}, "failuremode": "continue"})
    problem(answer, 400, "INVALID_INPUT")
    assert fields(answer) == {"failuremode": "is unknown; did you mean 'failureMode'?"}


def test_every_wrong_field_is_named(api: Api, pipeline: str) -> None:
    body = {
        "failureMode": "maybe",
        "priority": True,
        "metadata": [],
        "validationMode": "maybe",
        "runToken": "",
    }
    answer = api.post("/api/pipelines/files/trigger", body)
    problem(answer, 400, "INVALID_INPUT")
    assert fields(answer).keys() == body.keys()
    expected = {each["field"]: each.get("expected") for each in answer.json["errors"]}
    assert expected["failureMode"] == "'fail-fast', 'continue' or 'partial-merge'"
    assert expected["priority"] == "an integer"
    assert fields(answer)["metadata"] == "must be an object, not a list"
    assert answer.json["detail"].endswith("must be 'fail-fast', 'continue' or 'partial-merge' (and 4 more)")


def test_the_detail_names_the_first_wrong_field_as_a_sentence(api: Api, pipeline: str) -> None:
    answer = api.post("/api/pipelines/files/trigger", {"priority": "5"})
    assert answer.json["detail"] == "priority: must be an integer, not a text"
    assert api.get("/api/runs?limit=0").json["detail"] == "limit: must be greater than or equal to 1"


def test_a_wrong_field_in_a_list_has_its_index(api: Api) -> None:
    answer = api.post("/api/queue/batch", {"tasks": [{"taskId": "count"}, {"taskid": "count"}]})
    problem(answer, 400, "INVALID_INPUT")
    assert fields(answer) == {
        "tasks[1].taskId": "is required",
        "tasks[1].taskid": "is unknown; did you mean 'taskId'?",
    }


@pytest.mark.parametrize("name", ["<", "<flat>", "<nested>", "<b>", ""])
def test_an_unknown_field_is_named_whatever_its_name_is(api: Api, name: str) -> None:
    for path in (QUEUE, "/api/services", "/api/pipelines/files/trigger"):
        answer = api.post(path, {name: 1})
        problem(answer, 400, "INVALID_INPUT")
        assert name in fields(answer)
    for path, body, field in (
        ("/api/queue/batch", {"tasks": [{"taskId": "count", name: 1}]}, f"tasks[0].{name}"),
        ("/api/services", {"serviceId": "s", "tasks": [{"id": "t", name: 1}]}, f"tasks[0].{name}"),
        ("/api/services", {"serviceId": "s", "tasks": [{"taskId": "t", name: 1}]}, f"tasks[0].{name}"),
        (
            "/api/services",
            {"serviceId": "s", "tasks": [{"taskId": "t", "config": {name: 1}}]},
            f"tasks[0].config.{name}",
        ),
    ):
        answer = api.post(path, body)
        problem(answer, 400, "INVALID_INPUT")
        assert field in fields(answer)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b'{"taskId": "count", "taskId": "report"}', "taskId"),
        (b'{"taskId": "count", "input": {"to": 1, "x": [{"a": 1, "\\u0061": 2}]}}', "a"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(api: Api, content: bytes, name: str) -> None:
    answer = api.raw("POST", QUEUE, content)
    assert repr(name) in problem(answer, 400, "MALFORMED_JSON")["detail"]
    assert list(fields(answer)) == [name]


def test_a_batch_that_is_too_large_or_empty_is_refused(api: Api) -> None:
    for tasks in ([], [{"taskId": "count"}] * (MAX_BATCH + 1)):
        problem(api.post("/api/queue/batch", {"tasks": tasks}), 400, "INVALID_INPUT")


def test_a_body_over_the_limit_is_refused(api: Api) -> None:
    answer = api.raw("POST", QUEUE, b'"' + b"a" * MAX_BODY_BYTES + b'"')
    assert problem(answer, 413, "PAYLOAD_TOO_LARGE")["limit"] == MAX_BODY_BYTES


def test_nothing_of_a_wrong_body_is_repeated(api: Api) -> None:
    answer = api.post(QUEUE, {"taskId": {"password": "hunter2"}, "priority": "hunter2"})
    assert answer.status_code == 400
    assert b"hunter2" not in answer.data


# --- query parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=", "limit"),
        ("lmit=1", "lmit"),
        ("status=done", "status"),
        ("status=%00", "status"),
        ("cursor=nonsense", "cursor"),
        ("cursor=", "cursor"),
        ("pipelineId=a%20b", "pipelineId"),
        ("createdAfter=yesterday", "createdAfter"),
        ("createdAfter=1700000000", "createdAfter"),
        ("createdAfter=2026-11-20T00:00:00", "createdAfter"),
        ("createdAfter=2026-02-30T00:00:00Z", "createdAfter"),
    ],
)
def test_a_wrong_query_parameter_is_named(api: Api, query: str, field: str) -> None:
    answer = api.get(f"/api/runs?{query}")
    problem(answer, 400, "INVALID_INPUT")
    assert list(fields(answer)) == [field]


@pytest.mark.parametrize(
    "content", [b'["runs",1]', b'["runs",{}]', b'["runs",null]', b'["runs","x"]', b"[]", b"{}"]
)
def test_a_cursor_with_a_key_of_another_type_is_refused(api: Api, content: bytes) -> None:
    cursor = base64.urlsafe_b64encode(content).decode().rstrip("=")
    answer = api.get(f"/api/runs?cursor={cursor}")
    problem(answer, 400, "INVALID_INPUT")
    assert list(fields(answer)) == ["cursor"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/api/queue/items", b'["queue",2147483648,"00000000-0000-0000-0000-000000000000"]'),
        ("/api/queue/items", b'["queue",-2147483649,"00000000-0000-0000-0000-000000000000"]'),
        ("/api/pipelines/files/versions", b'["versions",2147483648]'),
        ("/api/tasks/count/history", b'["history",2147483648]'),
    ],
)
def test_a_cursor_beyond_the_numbers_of_its_column_is_refused(
    api: Api, pipeline: str, path: str, content: bytes
) -> None:
    cursor = base64.urlsafe_b64encode(content).decode().rstrip("=")
    answer = api.get(f"{path}?cursor={cursor}")
    problem(answer, 400, "INVALID_INPUT")
    assert list(fields(answer)) == ["cursor"]


def test_a_path_that_takes_no_parameters_refuses_them(api: Api, run_id: str) -> None:
    answer = api.get(f"/api/runs/{run_id}?verbose=1")
    problem(answer, 400, "INVALID_INPUT")
    assert list(fields(answer)) == ["verbose"]


# --- our own faults ---------------------------------------------------------------------------------------


def test_an_unexpected_error_gives_an_incident_and_no_trace(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the secret is hunter2")

    monkeypatch.setattr(reading, "queue_status", broken)
    with caplog.at_level(logging.ERROR):
        answer = api.get("/api/queue/status")
    incident = problem(answer, 500, "INTERNAL_ERROR")["incident"]
    assert b"hunter2" not in answer.data
    assert b"Traceback" not in answer.data
    assert incident in [getattr(record, "incident", None) for record in caplog.records]
    assert "RuntimeError: the secret is hunter2" in caplog.text


def test_every_answer_carries_the_requests_id(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/health", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    assert client.get("/nothing", headers={"X-Request-Id": "a b"}).headers["X-Request-Id"].startswith("req_")


def test_without_postgresql_the_api_says_so(deployment: Deployment, broker_url: str) -> None:
    from dataclasses import replace

    from pipeweave.api import create_app

    nobody = "postgresql://pipeweave:hunter2@127.0.0.1:1/nobody"
    app = create_app(replace(deployment.settings, database_url=nobody))
    client = app.test_client()
    health = client.get("/health")
    assert (health.status_code, health.json["status"]) == (503, "error")
    answer = client.get("/api/runs", headers={"Authorization": "Bearer pw_x", "X-Tenant": "default"})
    problem(answer, 503, "UNAVAILABLE")
    assert answer.headers["Retry-After"]
    assert b"hunter2" not in health.data + answer.data
    assert b"127.0.0.1" not in health.data + answer.data
