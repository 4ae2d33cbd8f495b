"""One connection for many requests: those with plain heads, which the server reads itself, and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.api_samples import TENANT
from support.api_server import Server, running_api
from support.raw_clients import connect, exchange, status_of

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import WRITE

if TYPE_CHECKING:
    from conftest import Tokens

CONTENT = b'{"taskId": "nobody"}'


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def bearer(tokens: Tokens) -> str:
    return f"Authorization: Bearer {tokens.make(WRITE)}"


def head(line: str, *headers: str) -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: localhost", f"X-Tenant: {TENANT}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def post(bearer: str, *headers: str) -> bytes:
    return head("POST /api/queue/task", bearer, "Content-Type: application/json", *headers)


def in_chunks(bearer: str) -> bytes:
    return post(bearer, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(CONTENT), CONTENT)


def whole(bearer: str) -> bytes:
    return post(bearer, f"Content-Length: {len(CONTENT)}") + CONTENT


def test_plain_requests_and_others_are_answered_in_their_order(server: Server, bearer: str) -> None:
    plain, other = head("GET /api/tasks/count", bearer), head("HEAD /api/tasks/count", bearer)
    asked = [plain, in_chunks(bearer), whole(bearer), other, plain, whole(bearer), in_chunks(bearer)]
    answer = exchange(server.url, b"".join(asked) + head("GET /health", "Connection: close"))
    statuses = re.findall(rb"HTTP/1\.1 ([0-9]{3})", answer)
    assert statuses == [b"200", b"404", b"404", b"200", b"200", b"404", b"404", b"200"]


@pytest.mark.parametrize("pieces", [1, 7, 300])
def test_requests_may_arrive_in_pieces_of_any_size(server: Server, bearer: str, pieces: int) -> None:
    sent = whole(bearer) + in_chunks(bearer) + whole(bearer) + head("GET /health", "Connection: close")
    parts = [sent[at : at + pieces] for at in range(0, len(sent), pieces)]
    statuses = re.findall(rb"HTTP/1\.1 ([0-9]{3})", exchange(server.url, *parts))
    assert statuses == [b"404", b"404", b"404", b"200"]


def test_a_body_that_is_awaited_leaves_no_deadline_behind(server: Server, bearer: str) -> None:
    """gunicorn reads the first and the last body, in the thread that waits for them."""
    chunked = in_chunks(bearer)
    with connect(server.url) as client:
        for parts in ([chunked], [whole(bearer)], [chunked[:-10], chunked[-10:]]):
            for part in parts:
                client.sendall(part)
            assert status_of(client.recv(65_536)) == 404
