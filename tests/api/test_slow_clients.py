"""Clients that are slow, silent or too many do not keep the API from answering others."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
import urllib3
from support.api_samples import TENANT
from support.api_server import STOP_DEADLINE_S, Server, running_api
from support.raw_clients import ANSWER_DEADLINE_S, connect, crowd, exchange, read_all, status_of

from pipeweave import Client
from pipeweave.api.serve import THREADS
from pipeweave.api.server.deadlines import HEAD_S, MAX_CONNECTIONS, MAX_TAKEN_IN, SMALL_ANSWER
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.size_limits import MAX_BODY_BYTES

if TYPE_CHECKING:
    from conftest import Api, Tokens

# Less than any deadline of the server: within it, the slow clients are still there.
AT_ONCE_S = HEAD_S / 2
CROWD = 3 * THREADS


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with awake_api(deployment, tmp_path_factory.mktemp("served")) as server:
        yield server


@contextmanager
def awake_api(deployment: Deployment, folder: Path) -> Iterator[Server]:
    """A server that has written its OpenAPI document, for which it computes longer than for other answers."""
    with running_api(deployment.settings, folder) as server:
        exchange(server.url, get("/api/openapi.json", "Connection: close"))
        yield server


def answers_others(server: Server) -> bool:
    """Whether the server answers at once what takes a thread, and its health."""
    for path in ("/health", "/api/openapi.json"):
        answer = urllib3.request("GET", server.url + path, retries=False, timeout=AT_ONCE_S)
        if answer.status != 200:
            return False
    return True


def get(path: str, *headers: str) -> bytes:
    """The head of a GET request."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"X-Tenant: {TENANT}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, *headers: str) -> bytes:
    """The head of a POST request."""
    return get(path, "Content-Type: application/json", *headers).replace(b"GET", b"POST", 1)


OPEN = ("/api/webhooks/default/none", "/api/task-runs/none/complete", "/api/callback/none", "/api/heartbeat")


@pytest.mark.parametrize("path", OPEN)
@pytest.mark.parametrize(
    "body", ["Content-Length: 200000", "Content-Length: 9000000", "Transfer-Encoding: chunked"]
)
def test_who_has_no_token_keeps_nobody_waiting_by_a_body_that_never_comes(
    server: Server, path: str, body: str
) -> None:
    with crowd(server.url, CROWD, post(path, body)):
        assert answers_others(server)


@pytest.mark.parametrize("body", ["Content-Length: 9000000", "Transfer-Encoding: chunked"])
def test_who_has_a_token_keeps_few_threads_waiting_for_bodies(
    server: Server, tokens: Tokens, body: str
) -> None:
    asked = post("/api/tasks/count/validate-input", f"Authorization: Bearer {tokens.make(READ)}", body)
    with crowd(server.url, 40, asked) as clients:
        assert answers_others(server)
        if "chunked" in body:
            refused = clients[-1].recv(4096)
            assert status_of(refused) == 429 and b"Retry-After" in refused


def test_large_bodies_arrive_side_by_side(server: Server, api: Api, pipeline: str) -> None:
    content = orjson.dumps({"input": {"text": "x" * 3_000_000}})
    bearer = f"Authorization: Bearer {api.token}"
    head = post(f"/api/pipelines/{pipeline}/trigger", bearer, f"Content-Length: {len(content)}")
    with crowd(server.url, THREADS, head + content[:-1]) as clients:
        assert answers_others(server)
        for client in clients:
            client.sendall(content[-1:])
        assert [status_of(client.recv(4096)) for client in clients] == [200] * THREADS


def test_a_body_beyond_the_room_for_bodies_is_awaited_by_a_thread(
    server: Server, api: Api, pipeline: str
) -> None:
    many = MAX_TAKEN_IN // 9_000_000 + 1
    with crowd(server.url, many, post("/api/queue/task", "Content-Length: 9000000")):
        content = orjson.dumps({"input": {"text": "x" * 3_000_000}})
        bearer = f"Authorization: Bearer {api.token}"
        length = f"Content-Length: {len(content)}"
        head = post(f"/api/pipelines/{pipeline}/trigger", bearer, length, "Connection: close")
        assert status_of(exchange(server.url, head, content)) == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /hea",
        b"GET /health HTTP/1.1\r\nHost: loc",
        post("/api/queue/task", "Content-Length: 100") + b"{",
        post("/api/queue/task", "Content-Length: 9000000") + b"{",
        post("/api/queue/task", "Transfer-Encoding: chunked") + b"ff\r\n{",
    ],
    ids=["nothing", "a line", "a header", "a small body", "a large body", "a chunk"],
)
def test_who_sends_only_a_part_of_a_request_keeps_nobody_waiting(server: Server, sent: bytes) -> None:
    with crowd(server.url, CROWD, sent):
        assert answers_others(server)


def test_who_does_not_read_keeps_nobody_waiting(server: Server, api: Api, pipeline: str) -> None:
    """Each of these answers is larger than what the sockets between server and client hold."""
    given = {"input": {"text": "x" * 8_000_000}}
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", given).json["pipelineRunId"]
    asked = get(f"/api/runs/{run_id}?load=true", f"Authorization: Bearer {api.token}")
    with crowd(server.url, THREADS + 2, asked, receive_buffer=4096) as clients:
        for client in clients:
            client.recv(1)
        assert answers_others(server)


def test_an_answer_arrives_in_full_however_slowly_it_is_taken(
    server: Server, api: Api, pipeline: str
) -> None:
    text = "x" * 5_000_000
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": text}).json["pipelineRunId"]
    head = get(f"/api/runs/{run_id}?load=true", f"Authorization: Bearer {api.token}", "Connection: close")
    with connect(server.url, receive_buffer=4096) as client:
        client.sendall(head)
        answer = client.recv(10)
        assert answers_others(server)
        answer += read_all(client)
    assert orjson.loads(answer.partition(b"\r\n\r\n")[2])["input"] == text


def test_who_does_not_close_keeps_nobody_waiting(server: Server) -> None:
    with crowd(server.url, CROWD, get("/health", "Connection: close")) as clients:
        for client in clients:
            client.recv(1)
        assert answers_others(server)


def test_more_connections_than_the_server_keeps_do_not_shut_others_out(server: Server) -> None:
    with crowd(server.url, MAX_CONNECTIONS + 20, b"GET /hea"):
        assert answers_others(server)


def test_requests_that_do_not_arrive_in_time_are_refused_or_closed(server: Server) -> None:
    begun = time.monotonic()
    parts = {
        b"": 0,
        b"GET /hea": 408,
        post("/api/queue/task", "Content-Length: 100") + b"{": 408,
    }
    clients = []
    for sent in parts:
        client = socket.create_connection(server.address, timeout=ANSWER_DEADLINE_S)
        client.sendall(sent)
        clients.append(client)
    answers = [read_all(client) for client in clients]
    assert [status_of(answer) for answer in answers] == list(parts.values())
    assert time.monotonic() - begun >= HEAD_S - 1
    for client in clients:
        client.close()


def test_who_has_no_token_gets_small_answers_only(server: Server) -> None:
    for path in ("/health", "/docs", "/api/openapi.json", "/static/docs.css", "/api/runs"):
        answer = exchange(server.url, get(path, "Connection: close"))
        assert 0 < len(answer) < SMALL_ANSWER


def test_slow_clients_do_not_keep_the_process_from_stopping(deployment: Deployment, tmp_path: Path) -> None:
    closes = get("/health", "Connection: close")
    with awake_api(deployment, tmp_path) as server, ExitStack() as stack:
        for sent in (b"", b"GET /hea", closes):
            stack.enter_context(crowd(server.url, CROWD, sent))
        assert answers_others(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(STOP_DEADLINE_S) == 0


def test_a_small_body_that_comes_later_is_waited_for(server: Server, tokens: Tokens) -> None:
    content = b'{"taskId": "nobody"}'
    bearer = f"Authorization: Bearer {tokens.make(WRITE)}"
    head = post("/api/queue/task", bearer, f"Content-Length: {len(content)}", "Connection: close")
    assert status_of(exchange(server.url, head, content)) == 404


def test_requests_sent_in_one_go_are_answered_in_their_order(server: Server, tokens: Tokens) -> None:
    bearer = f"Authorization: Bearer {tokens.make(READ)}"
    paths = ("/api/tasks/count", "/api/tasks/nobody")
    heads = [get(path, bearer) for path in paths] + [get("/health", "Connection: close")]
    answer = exchange(server.url, b"".join(heads))
    assert re.findall(rb"HTTP/1.1 ([0-9]+)", answer) == [b"200", b"404", b"200"]


def test_who_sends_a_large_body_without_a_token_gets_to_read_why_it_was_refused(server: Server) -> None:
    body = b" " * MAX_BODY_BYTES
    answer = exchange(server.url, post("/api/queue/task", f"Content-Length: {len(body)}"), body)
    assert status_of(answer) == 401


@pytest.mark.parametrize(
    "chunk", [b"-2\r\n{}", b"0x2\r\n{}\r\n", b"0_2\r\n{}\r\n", b"2\n{}\n", b"2;=\r\n{}\r\n"]
)
def test_wrong_chunks_are_the_clients_fault(server: Server, tokens: Tokens, chunk: bytes) -> None:
    bearer = f"Authorization: Bearer {tokens.make(WRITE)}"
    answer = exchange(
        server.url, post("/api/queue/task", bearer, "Transfer-Encoding: chunked"), chunk + b"0\r\n\r\n"
    )
    assert status_of(answer) == 400
    assert b"INVALID_INPUT" in answer
    assert b"Traceback" not in server.log.read_bytes()


def test_an_export_arrives_compressed_and_in_pieces(server: Server, tokens: Tokens) -> None:
    client = Client(server.url, tokens.make(READ), TENANT)
    [page] = client.export_pages("runs", pipelineId="none")
    assert (page.lines, page.is_last) == ([], True)
    assert list(client.export("runs", after=page.cursor, pipelineId="none")) == []
