"""The API as a process: gunicorn as we set it up."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
import psutil
import pytest
import urllib3
from gunicorn.config import Config
from gunicorn.http.errors import (
    InvalidRequestLine,
    LimitRequestHeaders,
    LimitRequestLine,
    UnsupportedTransferCoding,
)
from support.api_samples import TENANT
from support.api_server import Server, running_api
from support.servers import wait_until

from pipeweave.api.serve import GRACEFUL_TIMEOUT_S, AccessLog, options, redacted, serve
from pipeweave.api.server import unreadable
from pipeweave.errors import InvalidSetting, PortInUse, SchemaOutdated, StartFailed
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import WRITE
from pipeweave.orchestrator.store import Database
from pipeweave.settings import Settings
from pipeweave.size_limits import MAX_BODY_BYTES
from pipeweave.up.ports import free_port

if TYPE_CHECKING:
    from conftest import Tokens

# How long an answer may take on a busy machine.
ANSWER_DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("served")) as server:
        yield server


def test_the_process_serves_and_stops_when_told(deployment: Deployment, tmp_path: Path) -> None:
    with running_api(deployment.settings, tmp_path, "--processes", "2") as server:
        answer = urllib3.request("GET", f"{server.url}/health", retries=False, timeout=ANSWER_DEADLINE_S)
        assert answer.status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(GRACEFUL_TIMEOUT_S + 10) == 0


def test_a_replaced_server_process_refuses_no_request(deployment: Deployment, tmp_path: Path) -> None:
    """What a process does that takes more than API_MAX_MEMORY."""
    with running_api(deployment.settings, tmp_path) as server:
        (before,) = psutil.Process(server.process.pid).children()
        server.process.send_signal(signal.SIGHUP)

        def is_replaced() -> bool:
            answer = urllib3.request("GET", f"{server.url}/health", retries=False, timeout=ANSWER_DEADLINE_S)
            assert answer.status == 200
            children = psutil.Process(server.process.pid).children()
            return bool(children) and before not in children

        wait_until(is_replaced, what="the process was not replaced")


@pytest.mark.parametrize(("processes", "limit"), [(1, 600), (4, 150), (2, 0)])
def test_each_server_process_has_its_share_of_the_memory(processes: int, limit: int) -> None:
    chosen = Settings(api_max_memory=limit * processes)
    assert ("post_worker_init" in options(chosen, None, None, processes)) == bool(limit)


@pytest.mark.parametrize("url", ["database_url", "broker_url"])
def test_without_its_urls_the_process_says_so_and_does_not_start(deployment: Deployment, url: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{url.upper()} is not set"):
        serve(replace(deployment.settings, **{url: None}), port=free_port())


def test_a_database_without_the_schema_is_refused(
    deployment: Deployment, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.api.serve.json_logs.configure", lambda *levels: None)
    with Database(fresh_database_url, pool_size=0).transaction() as tx:
        tx.execute("DROP TABLE schema_migrations")
    with pytest.raises(SchemaOutdated, match="no schema yet"):
        serve(replace(deployment.settings, database_url=fresh_database_url), port=free_port())


def test_a_port_that_is_in_use_is_said_at_once(deployment: Deployment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is in use"):
            serve(deployment.settings, "127.0.0.1", port)


def test_an_address_that_this_host_does_not_have_is_said_at_once(deployment: Deployment) -> None:
    with pytest.raises(StartFailed, match=r"cannot listen on port \d+ of 192.0.2.1"):
        serve(deployment.settings, "192.0.2.1", free_port())


def test_a_request_that_is_not_http_gets_a_problem_document(server: Server) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=ANSWER_DEADLINE_S) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nBad Header\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"application/problem+json" in head
    assert orjson.loads(body)["code"] == "INVALID_INPUT"


def test_a_line_that_is_too_long_is_refused_as_such(server: Server) -> None:
    answer = urllib3.request(
        "GET", f"{server.url}/api/runs?cursor={'x' * 10_000}", retries=False, timeout=ANSWER_DEADLINE_S
    )
    assert (answer.status, answer.json()["status"]) == (414, 414)


def test_a_chunked_body_over_the_limit_is_refused_and_one_of_just_the_limit_is_not(
    server: Server, tokens: Tokens
) -> None:
    token = tokens.make(WRITE)
    headers = {"Content-Type": "application/json", "X-Tenant": TENANT, "Authorization": f"Bearer {token}"}
    codes = []
    for size in (MAX_BODY_BYTES, MAX_BODY_BYTES + 1):
        content = b'{"taskId": "nobody"}'.ljust(size)
        chunks = (content[at : at + 1_000_000] for at in range(0, size, 1_000_000))
        url = f"{server.url}/api/queue/task"
        answer = urllib3.request(
            "POST", url, body=chunks, headers=headers, retries=False, timeout=ANSWER_DEADLINE_S
        )
        codes.append((answer.status, answer.json()["code"]))
    assert codes == [(404, "NOT_FOUND"), (413, "PAYLOAD_TOO_LARGE")]


@pytest.mark.parametrize("is_quiet", [True, False])
def test_single_levels_hold_for_the_lines_of_requests(is_quiet: bool) -> None:
    log = logging.getLogger("gunicorn.access")
    before = log.level, log.handlers[:], log.propagate
    try:
        log.setLevel(logging.WARNING if is_quiet else logging.DEBUG)
        assert AccessLog(Config()).access_log.isEnabledFor(logging.INFO) is not is_quiet
        assert AccessLog(Config()).access_log.isEnabledFor(logging.INFO) is not is_quiet
    finally:
        log.setLevel(before[0])
        log.handlers, log.propagate = before[1:]


def test_the_access_log_has_neither_tokens_nor_broken_lines(server: Server) -> None:
    headers = {"Authorization": "Bearer pw_secret-token"}
    urllib3.request(
        "GET",
        f"{server.url}/api/runs?token=pw_query-token",
        headers=headers,
        retries=False,
        timeout=ANSWER_DEADLINE_S,
    )
    urllib3.request(
        "GET",
        f"{server.url}/w/default/pw_path-token/api/tasks%0aforged",
        retries=False,
        timeout=ANSWER_DEADLINE_S,
    )
    # A line is written after its answer was sent.
    wait_until(lambda: "GET /api/tasks%0Aforged" in server.log.read_text())
    assert "GET /api/runs" in server.log.read_text()
    assert "-token" not in server.log.read_text()
    lines = [orjson.loads(line) for line in server.log.read_text().splitlines()]
    assert "gunicorn.access" in {line["logger"] for line in lines}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/w/default/pw_abc/api/register", "/w/default/***/api/register"),
        ("/w/default/pw_abc", "/w/default/***"),
        ("/api/runs/prun_1", "/api/runs/prun_1"),
        ("/a\r\nb", "/a%0D%0Ab"),
    ],
)
def test_a_token_in_a_path_is_masked(path: str, shown: str) -> None:
    assert redacted(path) == shown


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestLine("x"), 400),
        (LimitRequestLine(1, 2), 414),
        (LimitRequestHeaders("x"), 431),
        (UnsupportedTransferCoding("x"), 501),
        (RuntimeError("hunter2"), 500),
    ],
)
def test_an_unreadable_request_gets_its_status(error: Exception, status: int) -> None:
    answer = unreadable(error)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"hunter2" not in answer
    # As the application's answers.
    assert b"\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n" in answer


def test_the_server_is_set_up_as_documented() -> None:
    given = options(Settings(host="::1", port=4000), None, None, 3)
    assert given["bind"] == "[::1]:4000"
    assert given["workers"] == 3
    assert given["graceful_timeout"] == GRACEFUL_TIMEOUT_S
    assert given["control_socket_disable"] is True
    assert given["preload_app"] is False
    assert options(Settings(), "0.0.0.0", 0, 1)["bind"] == "0.0.0.0:0"
