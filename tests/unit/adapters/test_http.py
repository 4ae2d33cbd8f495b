"""The adapter `http` sends one request where the deployment allows it, and tells how it ended by a code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.actions import TASK_RUN, access, call
from support.dripping import dripping
from support.stub_http_server import Served

from pipeweave.adapters import HttpAdapter
from pipeweave.adapters.exchange import RETRIED, ActionRequest
from pipeweave.errors import InvalidParams, TaskError
from pipeweave.size_limits import MAX_ACTION_ANSWER_BYTES
from pipeweave.up.ports import free_port
from pipeweave.workers.consumer.deployment_access import DeploymentAccess

JSON = {"content-type": "application/json; charset=utf-8"}

request = HttpAdapter.request


def failure(deployment: DeploymentAccess | None, **params: Any) -> TaskError:
    with pytest.raises(TaskError) as failed:
        call(request, deployment, **params)
    return failed.value


def test_the_answer_is_the_output_with_its_json_as_a_value(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /orders/7?page=2&full=true", (200, {"total": 12.5}, {**JSON, "X-Left": "3"}))
    query = {"page": 2, "full": True}
    output = call(request, here, url=f"{served.url}/orders/7", query=query).output
    assert (output["status"], output["body"], output["headers"]["x-left"]) == (200, {"total": 12.5}, "3")


def test_what_the_query_holds_cannot_leave_its_place(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /a?kept=1&name=x%26admin%3D1%23", (200, {}))
    output = call(request, here, url=f"{served.url}/a?kept=1", query={"name": "x&admin=1#"}).output
    assert output["status"] == 200


def test_a_body_is_json_or_text(here: DeploymentAccess, served: Served) -> None:
    served.put("POST /a", (201, b""))
    call(request, here, url=f"{served.url}/a", method="POST", json={"n": 1})
    call(
        request, here, url=f"{served.url}/a", method="POST", body="<n>1</n>", headers={"Content-Type": "x/y"}
    )
    first, second = served.asked
    assert (first[1]["content-type"], first[2]) == ("application/json", {"n": 1})
    assert (second[1]["content-type"], second[2]) == ("x/y", b"<n>1</n>")


def test_a_request_that_is_not_safe_to_repeat_has_the_key_of_its_task_run(
    here: DeploymentAccess, served: Served
) -> None:
    served.put("POST /a", (200, {}))
    served.put("GET /a", (200, {}))
    call(request, here, url=f"{served.url}/a", method="POST")
    call(request, here, url=f"{served.url}/a", method="POST", headers={"Idempotency-Key": "mine"})
    call(request, here, url=f"{served.url}/a")
    assert [each[1].get("idempotency-key") for each in served.asked] == [TASK_RUN, "mine", None]


@pytest.mark.parametrize("status", [400, 404, 409, 418, 500, 503])
def test_an_answer_of_failure_fails_with_its_status_as_the_code(
    here: DeploymentAccess, served: Served, status: int
) -> None:
    served.put("GET /secret-path?key=secret", (status, b"no\nsuch thing"))
    failed = failure(here, url=f"{served.url}/secret-path?key=secret")
    assert (failed.task_code, failed.retryable) == (f"HTTP_{status}", True)
    assert failed.details["body"] == "no\nsuch thing"
    assert str(failed) == f"127.0.0.1 answered {status}: no such thing"


def test_only_what_another_try_may_help_is_retried_unless_the_step_says_more() -> None:
    policy = request.spec.retry_policy
    assert policy.may_retry("HTTP_503", is_retryable=True)
    assert policy.may_retry("WORKER_LOST", is_retryable=True)
    assert not policy.may_retry("HTTP_404", is_retryable=True)
    assert request.spec.retry_on == RETRIED


def test_a_redirect_is_not_followed(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /a", (302, b"", {"Location": f"{served.url}/b"}))
    failed = failure(here, url=f"{served.url}/a")
    assert (failed.task_code, len(served.asked)) == ("HTTP_302", 1)
    assert "redirects are not followed" in str(failed)


def test_an_answer_that_is_too_large_fails_for_good(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /a", (200, b"x" * MAX_ACTION_ANSWER_BYTES))
    served.put("GET /b", (200, b"x" * (MAX_ACTION_ANSWER_BYTES + 1)))
    assert len(call(request, here, url=f"{served.url}/a").output["body"]) == MAX_ACTION_ANSWER_BYTES
    failed = failure(here, url=f"{served.url}/b")
    assert (failed.task_code, failed.retryable) == ("HTTP_ANSWER_TOO_LARGE", False)


@pytest.mark.parametrize(
    ("content", "headers", "body"),
    [
        (b"", {}, None),
        (b"plain", {}, "plain"),
        ("Zürich".encode("latin-1"), {"content-type": "text/plain; charset=ISO-8859-1"}, "Zürich"),
        (b'{"a": 1}', {"content-type": "application/problem+json"}, {"a": 1}),
        (b"{broken", {"content-type": "application/json"}, "{broken"),
        (b'{"a": 1}', {"content-type": "text/plain"}, '{"a": 1}'),
    ],
)
def test_an_answer_is_a_value_a_text_or_null(
    here: DeploymentAccess, served: Served, content: bytes, headers: dict[str, str], body: Any
) -> None:
    served.put("GET /a", (200, content, headers))
    assert call(request, here, url=f"{served.url}/a").output["body"] == body


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"\x89PNG\xff", {}),
        (b"abc", {"content-type": "text/plain; charset=no-such-charset"}),
        (b"\x1f\x8b", {"content-encoding": "gzip"}),
    ],
)
def test_what_is_neither_json_nor_text_is_refused(
    here: DeploymentAccess, served: Served, content: bytes, headers: dict[str, str]
) -> None:
    served.put("GET /a", (200, content, headers))
    assert failure(here, url=f"{served.url}/a").task_code == "HTTP_ANSWER_UNREADABLE"


def test_who_does_not_answer_in_time_is_told_from_who_is_not_there(here: DeploymentAccess) -> None:
    with dripping(b"HTTP/1.1 200 OK\r\n", b"X") as slow:
        assert failure(here, url=slow.url, timeout="200ms").task_code == "HTTP_TIMEOUT"
    gone = failure(here, url=f"http://127.0.0.1:{free_port()}/")
    assert gone.task_code == "HTTP_UNREACHABLE"
    assert failure(here, url="http://no-such-host.invalid/").task_code == "HTTP_UNREACHABLE"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost:1/", "http://169.254.169.254/"])
def test_an_address_inside_is_refused_unless_the_deployment_allows_it(tmp_path: Path, url: str) -> None:
    for deployment in (access(tmp_path), None):
        failed = failure(deployment, url=url)
        assert (failed.task_code, failed.retryable) == ("TARGET_REFUSED", False)
        assert "DISPATCH_NETWORKS" in str(failed)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"url": "ftp://a/"}, "url"),
        ({"url": "http://a:0/"}, "url"),
        ({"url": "http://a:b/"}, "url"),
        ({"url": "http:///a"}, "url"),
        ({"url": "http://a/\nb"}, "url"),
        ({"url": "http://ä/"}, "url"),
        ({"url": f"http://a/{'x' * 8_000}"}, "url"),
        ({"url": "http://ann:hidden@a/"}, "url"),
        ({"url": "http://a", "method": "TRACE"}, "method"),
        ({"url": "http://a", "headers": {"a\r\nb": "c"}}, "headers"),
        ({"url": "http://a", "headers": {"a": "b\r\nc: d"}}, "headers.a"),
        ({"url": "http://a", "headers": {"Host": "b"}}, "headers.host"),
        ({"url": "http://a", "headers": {"Content-Length": "b"}}, "headers.content-length"),
        ({"url": "http://a", "secrets": {"Authorization": "shop"}}, "secrets"),
        ({"url": "http://a", "headers": ["a"]}, "headers"),
        ({"url": "http://a", "json": 1, "body": "b"}, "body"),
        ({"url": "http://a", "timeout": "5 parsecs"}, "timeout"),
        ({"url": "http://a", "timeout": 301}, "timeout"),
        ({"url": "http://a", "jsn": 1}, "jsn"),
        ({}, "url"),
    ],
)
def test_params_that_cannot_be_used_are_refused_by_name_and_without_their_secrets(
    here: DeploymentAccess, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidParams) as refused:
        call(request, here, **params)
    assert refused.value.errors[0].field == field
    assert "hidden" not in str(refused.value)


def test_cookies_of_an_answer_are_left_out(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /a", (200, {}, {**JSON, "X-Left": "3", "Set-Cookie": "sid=1"}))
    headers = call(request, here, url=f"{served.url}/a").output["headers"]
    assert (headers["x-left"], "set-cookie" in headers) == ("3", False)


def test_an_error_names_the_host_of_a_url_alone() -> None:
    assert ActionRequest("GET", "https://hooks.example/T0/secret?key=1").host == "hooks.example"
