"""What a proxy may read in another way than the API is refused, sent over a socket as it is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson
import pytest
from support.api_samples import TENANT
from support.api_server import Server, running_api
from support.raw_clients import exchange, status_of

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

CONTENT = b'{"taskId": "nobody"}'


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def bearer(tokens: Tokens) -> str:
    return f"Authorization: Bearer {tokens.make(WRITE)}"


def head(line: str, *headers: str, host: str | None = "localhost") -> bytes:
    named = [] if host is None else [f"Host: {host}"]
    lines = [line, *named, f"X-Tenant: {TENANT}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def problem(answer: bytes) -> tuple[int, str]:
    content = answer.partition(b"\r\n\r\n")[2]
    assert b"application/problem+json" in answer
    return status_of(answer), orjson.loads(content)["code"]


# --- whose the target is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://localhost/api/info", "localhost"),
        ("HTTP://LocalHost/api/info", "localhost"),
        ("http://localhost:80/api/info", "localhost"),
        ("https://localhost/api/info", "localhost:443"),
        ("http://[::1]:3000/api/info", "[::1]:3000"),
        ("/api/info", "a_service.example.com:3000"),
    ],
)
def test_a_target_may_name_the_host_that_the_request_names(
    server: Server, bearer: str, target: str, host: str
) -> None:
    answer = exchange(server.url, head(f"GET {target} HTTP/1.1", bearer, host=host))
    assert status_of(answer) == 200


@pytest.mark.parametrize(
    "target",
    [
        "http://other.example.com/api/info",
        "http://localhost:81/api/info",
        "http://localhost@other.example.com/api/info",
        "http://me@localhost/api/info",
        "http:///api/info",
        "ftp://localhost/api/info",
        "http://other.example.com/health",
        "http://other.example.com/ui/login",
    ],
)
def test_a_target_of_another_host_is_refused(server: Server, bearer: str, target: str) -> None:
    answer = exchange(server.url, head(f"GET {target} HTTP/1.1", bearer))
    assert problem(answer) == (421, "INVALID_INPUT")


def test_a_target_names_no_host_for_a_request_that_names_none(server: Server, bearer: str) -> None:
    answer = exchange(server.url, head("GET http://localhost/api/info HTTP/1.0", bearer, host=None))
    assert status_of(answer) == 421


@pytest.mark.parametrize("host", ["a b", "a, b", "a/b", "me@a", "a:x", "[::1", "a\x80b"])
def test_a_host_that_is_no_name_of_a_host_is_refused(server: Server, bearer: str, host: str) -> None:
    answer = exchange(server.url, head("GET /api/info HTTP/1.1", bearer, host=host))
    assert problem(answer) == (400, "INVALID_INPUT")


# --- how the body comes -----------------------------------------------------------------------------------


def in_one_chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)


def sent(server: Server, bearer: str, content: bytes, *headers: str) -> bytes:
    json = "Content-Type: application/json"
    return exchange(server.url, head("POST /api/queue/task HTTP/1.1", bearer, json, *headers) + content)


@pytest.mark.parametrize("coding", ["chunked", "Chunked"])
def test_a_body_may_come_in_chunks(server: Server, bearer: str, coding: str) -> None:
    answer = sent(server, bearer, in_one_chunk(CONTENT), f"Transfer-Encoding: {coding}")
    assert problem(answer) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "headers",
    [
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity, chunked"],
        ["Transfer-Encoding: deflate,chunked"],
        ["Transfer-Encoding: br, chunked"],
    ],
)
def test_a_transfer_coding_that_nobody_undoes_is_refused(
    server: Server, bearer: str, headers: list[str]
) -> None:
    answer = sent(server, bearer, in_one_chunk(gzip.compress(CONTENT)), *headers)
    assert problem(answer) == (501, "INVALID_INPUT")


@pytest.mark.parametrize("coding", ["gzip", "chunked, gzip", "chunked, chunked"])
def test_a_body_without_an_end_is_refused(server: Server, bearer: str, coding: str) -> None:
    answer = sent(server, bearer, in_one_chunk(CONTENT), f"Transfer-Encoding: {coding}")
    assert problem(answer) == (400, "INVALID_INPUT")


@pytest.mark.parametrize("content", [CONTENT, gzip.compress(CONTENT, mtime=0)])
def test_a_compressed_body_is_refused_as_such(api: Api, content: bytes) -> None:
    api.sent["Content-Encoding"] = "gzip"
    answer = api.raw("POST", "/api/queue/task", content)
    assert (answer.status_code, answer.json["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "compressed (gzip)" in answer.json["detail"]
