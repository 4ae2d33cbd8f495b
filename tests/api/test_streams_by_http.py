"""Streams of changes: each change once, with any reader, until the client leaves or may not stay."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import psutil
import pytest
import urllib3
from support.api_samples import OTHER_TENANT, TENANT
from support.api_server import Server, running_api
from support.concurrency import BackgroundCall
from support.run_driver import claim
from support.servers import wait_until
from support.stream_reader import StreamEvent, StreamReader, streaming

from pipeweave import AsyncClient, Client, ids
from pipeweave.api.http.request_line import MOST_WAITING
from pipeweave.api.http.web_socket import MAX_RECEIVED, TOO_LARGE
from pipeweave.api.serve import THREADS
from pipeweave.attempt import StoredLogs
from pipeweave.client import waiting
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.orchestrator.store import event_log

if TYPE_CHECKING:
    from conftest import Api, Tokens


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("streaming")) as server:
        yield server


@pytest.fixture
def token(tokens: Tokens) -> str:
    return tokens.make(READ)


def write(deployment: Deployment, run_id: str, *types: str, size: int = 0) -> None:
    with deployment.database.transaction() as tx:
        found: UUID = ids.read(ids.RUN, run_id)
        event_log.append(
            tx, [Event(found, each, data={"text": "x" * size} if size else {}) for each in types]
        )


# --- a stream ---------------------------------------------------------------------------------------------


def test_changes_come_as_they_are_written(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    with streaming(server.url, f"/api/stream?run={run_id}", token, TENANT) as stream:
        assert stream.status == 200
        assert b"text/event-stream" in stream.head
        ready = stream.next()
        assert ready is not None and ready.name == "ready" and ready.id
        write(deployment, run_id, "run.paused")
        found = stream.next()
        assert found is not None and found.name == "message"
        assert found.data["runId"] == run_id
        assert found.data | {"at": None, "seq": 0} == {
            "type": "run.paused",
            "at": None,
            "seq": 0,
            "runId": run_id,
            "pipelineId": "files",
            "taskRunId": None,
            "step": None,
            "attempt": None,
            "data": {},
        }


def test_a_client_goes_on_where_it_was(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    path = f"/api/stream?run={run_id}"
    with streaming(server.url, path, token, TENANT) as stream:
        stream.next()
        write(deployment, run_id, "run.paused", "run.resumed", "run.paused")
        first = stream.next()
    assert first is not None
    write(deployment, run_id, "run.resumed")
    with streaming(server.url, path, token, TENANT, f"Last-Event-ID: {first.id}") as stream:
        stream.next()
        assert stream.types(3) == ["run.resumed", "run.paused", "run.resumed"]
        write(deployment, run_id, "run.cancelled")
        assert stream.types(1) == ["run.cancelled"]
    with streaming(server.url, f"{path}&cursor={first.id}&types=run.paused", token, TENANT) as stream:
        stream.next()
        assert stream.types(1) == ["run.paused"]


def test_far_behind_it_catches_up_by_pages(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    path = f"/api/stream?run={run_id}"
    with streaming(server.url, path, token, TENANT) as stream:
        begin = stream.next()
    assert begin is not None
    for _ in range(20):
        write(deployment, run_id, *["run.paused"] * 50)
    write(deployment, run_id, *["run.resumed"] * 1_000)
    with streaming(server.url, path, token, TENANT, f"Last-Event-ID: {begin.id}") as stream:
        stream.next()
        found = [stream.next() for _ in range(2_000)]
        write(deployment, run_id, "run.cancelled")
        assert stream.types(1) == ["run.cancelled"]
    numbers = [each.data["seq"] for each in found if each is not None]
    assert len(set(numbers)) == 2_000
    assert numbers == sorted(numbers)


def test_streams_hold_no_threads(server: Server, deployment: Deployment, token: str, run_id: str) -> None:
    with ExitStack() as stack:
        open_streams = [
            stack.enter_context(streaming(server.url, "/api/stream?pipeline=files&types=run", token, TENANT))
            for _ in range(3 * THREADS)
        ]
        for each in open_streams:
            each.next()
        answer = urllib3.request("GET", f"{server.url}/api/openapi.json", retries=False, timeout=60)
        assert answer.status == 200
        write(deployment, run_id, "run.paused", "task_runs.ready")
        assert [each.types(1) for each in open_streams] == [["run.paused"]] * len(open_streams)


def test_nothing_of_another_tenant_comes(
    server: Server, deployment: Deployment, tokens: Tokens, run_id: str
) -> None:
    other = tokens.make(READ, tenants=(OTHER_TENANT,))
    with (
        streaming(server.url, "/api/stream", other, OTHER_TENANT) as stream,
        streaming(server.url, f"/api/stream?run={run_id}", tokens.make(READ), TENANT) as own,
    ):
        own.next()
        ready = stream.next()
        write(deployment, run_id, "run.paused")
        assert own.types(1) == ["run.paused"]
        stream.client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            stream.next()
    assert ready is not None
    with streaming(
        server.url, "/api/stream", tokens.make(READ), TENANT, f"Last-Event-ID: {ready.id}"
    ) as foreign:
        assert foreign.status == 400


def test_a_token_that_is_revoked_ends_its_streams(server: Server, deployment: Deployment) -> None:
    with deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="watching", tenants=(TENANT,), scopes=(READ,))
    with streaming(server.url, "/api/stream", token, TENANT) as stream:
        stream.next()
        with deployment.database.transaction() as tx:
            access_tokens.revoke(tx, "watching")
        last = _last(stream)
    assert (last.name, last.data["code"]) == ("error", "UNAUTHENTICATED")


def _last(stream: StreamReader) -> StreamEvent:
    last = None
    while (found := stream.next()) is not None:
        last = found
    assert last is not None
    return last


def test_who_reads_slowly_gets_everything_once(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    with streaming(server.url, f"/api/stream?run={run_id}", token, TENANT, receive_buffer=65_536) as stream:
        stream.next()
        # More than the system keeps for the connection, and than waits in the server.
        for _ in range(60):
            write(deployment, run_id, *["run.paused"] * 10, size=10_000)
        write(deployment, run_id, "run.resumed")
        found = [stream.next() for _ in range(601)]
    numbers = [each.data["seq"] for each in found if each is not None]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 601


# Who reads nothing, and how much all of them together may take of the server's memory (bytes): half of what
# they would if all of it waited for each.
SILENT, EVENTS, MOST_MEMORY = 16, 60, 50_000_000


def memory_of(server: Server) -> int:
    process = psutil.Process(server.process.pid)
    return sum(int(each.memory_info().rss) for each in (process, *process.children(recursive=True)))


def test_who_reads_nothing_takes_bounded_memory_and_stalls_nobody(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    path = f"/api/stream?run={run_id}"
    with ExitStack() as stack:
        silent = [
            stack.enter_context(streaming(server.url, path, token, TENANT, receive_buffer=4_096))
            for _ in range(SILENT)
        ]
        reader = stack.enter_context(streaming(server.url, path, token, TENANT))
        for each in (*silent, reader):
            assert each.next() is not None
        before = memory_of(server)
        for _ in range(EVENTS):
            write(deployment, run_id, *["run.paused"] * 10, size=10_000)
        assert reader.types(EVENTS * 10) == ["run.paused"] * EVENTS * 10
        assert memory_of(server) - before < MOST_MEMORY


def test_logs_that_grow_are_told_to_all_who_want_them(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    found: UUID = ids.read(ids.RUN, run_id)
    with deployment.database.transaction() as tx:
        assert claim(tx, found, 1) is not None
    task_run = ids.show(ids.TASK_RUN, ids.task_run_id(found, 1))
    path, storage = f"runs/{task_run}.1/logs.jsonl", deployment.values.backends.default
    stored = StoredLogs(lambda place, content: storage.put(path, content) and None, every_s=0.0)
    query = f"run={run_id}&types=log,run.paused"
    with (
        streaming(server.url, f"/api/stream?{query}", token, TENANT) as first,
        streaming(server.url, f"/api/ws?{query}", token, TENANT, *UPGRADE) as second,
    ):
        first.next()
        read_frame(second)
        for count in (1, 2):
            stored.add(path, b'{"message":"one"}\n', run_id)
            change = first.next()
            assert change is not None and change.id is None
            assert (change.data["type"], change.data["taskRunId"]) == ("log", task_run)
            assert change.data["data"] == {"bytes": count * 18}
            message = orjson.loads(read_frame(second)[1])
            assert message == {"event": "change", "id": None, "change": message["change"]}
            assert message["change"]["data"] == change.data["data"]
        write(deployment, run_id, "run.paused")
        assert first.types(1) == ["run.paused"]
    stored.close(30)


# --- WebSockets -------------------------------------------------------------------------------------------

KEY = base64.b64encode(b"0123456789abcdef").decode()
UPGRADE = (
    "Upgrade: websocket",
    "Connection: keep-alive, Upgrade",
    "Sec-WebSocket-Version: 13",
    f"Sec-WebSocket-Key: {KEY}",
)


def read_frame(stream: StreamReader) -> tuple[int, bytes]:
    first, second = stream.exactly(2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(stream.exactly(2 if size == 126 else 8))
    return first & 0x0F, stream.exactly(size)


def send_frame(stream: StreamReader, kind: int, content: bytes) -> None:
    mask = b"mask"
    masked = bytes(each ^ mask[index % 4] for index, each in enumerate(content))
    size = bytes([0x80 | len(content)]) if len(content) < 126 else b"\xff" + len(content).to_bytes(8)
    stream.client.sendall(bytes([0x80 | kind]) + size + mask + masked)


def test_changes_come_over_a_web_socket(
    server: Server, deployment: Deployment, token: str, run_id: str
) -> None:
    with streaming(server.url, f"/api/ws?run={run_id}", token, TENANT, *UPGRADE) as stream:
        assert stream.status == 101
        kind, ready = read_frame(stream)
        assert (kind, orjson.loads(ready)["event"]) == (1, "ready")
        write(deployment, run_id, "run.paused")
        message = orjson.loads(read_frame(stream)[1])
        assert (message["event"], message["change"]["type"]) == ("change", "run.paused")
        send_frame(stream, 0x9, b"hello")
        assert read_frame(stream) == (0xA, b"hello")
        send_frame(stream, 0x8, b"\x03\xe8")
        assert read_frame(stream)[0] == 0x8
        assert stream.until(b"never") is None


def ask_over(stream: StreamReader, id: int, operation: str, **members: Any) -> None:
    send_frame(stream, 0x1, orjson.dumps({"id": id, "operation": operation} | members))


def test_requests_are_answered_over_a_web_socket_between_changes(
    server: Server, tokens: Tokens, run_id: str
) -> None:
    writer = tokens.make(READ, WRITE)
    path = f"/api/ws?run={run_id}&types=run.paused"
    with streaming(server.url, path, writer, TENANT, *UPGRADE) as stream:
        read_frame(stream)
        ask_over(stream, 1, "runs.pause", params={"id": run_id}, body={"reason": "a look"})
        messages = [orjson.loads(read_frame(stream)[1]) for _ in range(2)]
        answer, change = sorted(messages, key=lambda each: str(each["event"]))
        assert (answer["event"], answer["id"], answer["status"]) == ("answer", 1, 200)
        assert (change["event"], change["change"]["type"]) == ("change", "run.paused")
        ask_over(stream, 2, "runs.get_run", params={"id": run_id})
        assert orjson.loads(read_frame(stream)[1])["body"]["pausedAt"]


def test_requests_that_are_sent_ahead_are_answered_in_their_order_or_refused(
    server: Server, tokens: Tokens
) -> None:
    token = tokens.make(READ)
    with streaming(server.url, "/api/ws?changes=false", token, TENANT, *UPGRADE) as stream:
        assert orjson.loads(read_frame(stream)[1])["event"] == "ready"
        for number in range(200):
            ask_over(stream, number, "runs.list_runs", params={"limit": 1})
        answers = [orjson.loads(read_frame(stream)[1]) for _ in range(200)]
        served = [each["id"] for each in answers if each["status"] == 200]
        refused = [each for each in answers if each["status"] == 429]
        assert served == sorted(served) and len(served) > MOST_WAITING
        assert {each["body"]["code"] for each in refused} <= {"TOO_MANY_REQUESTS"}
        assert sorted([*served, *(each["id"] for each in refused)]) == list(range(200))
        send_frame(stream, 0x1, b"x" * (MAX_RECEIVED + 1))
        assert read_frame(stream)[1][:2] == TOO_LARGE.to_bytes(2)


def test_without_changes_nothing_chooses_among_them(api: Api) -> None:
    refused = api.get("/api/ws", changes="false", types="run", pipeline="files")
    assert [each["field"] for each in refused.json["errors"]] == ["pipeline", "types"]


# --- the clients ------------------------------------------------------------------------------------------


@pytest.fixture
def client(server: Server, tokens: Tokens) -> Iterator[Client]:
    with Client(server.url, tokens.make(READ, WRITE), TENANT) as client:
        yield client


def test_a_wait_is_woken_by_the_end_of_the_run(
    client: Client, api: Api, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FOLLOWED_PAUSE_S", 60.0)
    looks: list[str] = []
    look = client.run

    def answered(id: str) -> Any:
        found = look(id)
        looks.append(id)
        return found

    monkeypatch.setattr(client, "run", answered)
    with BackgroundCall(lambda: client.wait(run_id, timeout=50)) as waits:
        # The first look finds it open, and so does the second, which comes when the stream has begun.
        wait_until(lambda: len(looks) == 2)
        assert api.post(f"/api/runs/{run_id}/cancel").status_code == 200
        assert waits.result.status == "cancelled"
    assert len(looks) == 3


def test_an_async_wait_is_woken_too(server: Server, api: Api, tokens: Tokens, run_id: str) -> None:
    async def follow() -> tuple[str, list[str]]:
        async with AsyncClient(server.url, tokens.make(READ), TENANT) as client:
            seen = []
            waits = asyncio.create_task(client.wait(run_id, timeout=60))
            changes = client.watch(run_id, types=["run"])
            first = asyncio.create_task(anext(changes))
            while not first.done():
                await asyncio.sleep(0.05)
                write(deployment_of(api), run_id, "run.resumed")
            seen.append((await first)["type"])
            api.post(f"/api/runs/{run_id}/cancel")
            async for change in changes:
                seen.append(change["type"])
                if change["type"] == "run.cancelled":
                    break
            await changes.aclose()
            return (await waits).status, seen

    status, seen = asyncio.run(follow())
    assert status == "cancelled"
    assert set(seen) == {"run.resumed", "run.cancelled"}


def deployment_of(api: Api) -> Deployment:
    found: Deployment = api.http.application.extensions["pipeweave"]
    return found


def test_changes_go_on_over_a_restart_of_the_api(
    server: Server, client: Client, deployment: Deployment, run_id: str
) -> None:
    changes = client.watch(run_id)
    changes.begin()
    write(deployment, run_id, "run.paused")
    assert next(changes)["type"] == "run.paused"
    server.kill()
    write(deployment, run_id, "run.resumed")
    server.start_again()
    write(deployment, run_id, "run.cancelled")
    assert [next(changes)["type"] for _ in range(2)] == ["run.resumed", "run.cancelled"]
    changes.close()
    assert list(changes) == []


def test_the_command_prints_changes_until_the_run_ends(
    server: Server, api: Api, deployment: Deployment, tokens: Tokens, run_id: str
) -> None:
    environment = os.environ | {
        "PIPEWEAVE_ORCHESTRATOR_URL": server.url,
        "PIPEWEAVE_API_TOKEN": tokens.make(READ),
        "PIPEWEAVE_TENANT": TENANT,
    }
    argv = [sys.executable, "-m", "pipeweave.cli", "watch", run_id, "--types", "run", "--json"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        lines: list[str] = []
        with BackgroundCall(lambda: lines.extend(command.stdout or [])):
            while not lines:
                # Until the command has begun to watch.
                write(deployment, run_id, "run.resumed")
                time.sleep(0.1)
            assert api.post(f"/api/runs/{run_id}/cancel").status_code == 200
        assert command.wait(60) == 1
    assert [orjson.loads(each)["type"] for each in lines][-1] == "run.cancelled"
    again = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (1, "")


# --- what is refused --------------------------------------------------------------------------------------


def test_wrong_filters_and_cursors_are_refused_together(api: Api, run_id: str) -> None:
    answer = api.get("/api/stream", run=run_id, types="run.complete,banana", cursor="nonsense")
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json["errors"]] == ["types", "types", "cursor"]
    assert "run.completed" in answer.json["errors"][0]["expected"]


def test_logs_without_a_run_are_refused(api: Api) -> None:
    answer = api.get("/api/stream", types="log")
    assert (answer.status_code, answer.json["hint"]) == (400, "name a run: run=prun_…")
    assert answer.json["errors"][0]["field"] == "types"


def test_changes_of_the_state_stand_for_all_types(api: Api) -> None:
    refused = api.get("/api/stream", types="state_updated,run")
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "types")


def test_a_foreign_run_is_not_found(neighbour: Api, run_id: str) -> None:
    assert neighbour.get("/api/stream", run=run_id).status_code == 404
    assert neighbour.get("/api/stream", run="prun_nonsense").status_code == 400


def test_the_address_of_web_sockets_is_for_web_sockets(api: Api) -> None:
    answer = api.get("/api/ws")
    assert (answer.status_code, answer.json["code"]) == (426, "UPGRADE_REQUIRED")
    assert {each["field"] for each in answer.json["errors"]} >= {"Upgrade", "Sec-WebSocket-Key"}


def test_a_server_without_threads_says_so(api: Api) -> None:
    answer = api.get("/api/stream")
    assert (answer.status_code, answer.json["code"]) == (503, "TOO_MANY_STREAMS")
    assert answer.headers["Retry-After"]


# --- the end; these tests come last -----------------------------------------------------------------------


def test_a_server_that_stops_says_good_bye(server: Server, token: str) -> None:
    with (
        streaming(server.url, "/api/stream", token, TENANT) as stream,
        streaming(server.url, "/api/ws", token, TENANT, *UPGRADE) as socket,
    ):
        stream.next()
        read_frame(socket)
        server.process.send_signal(signal.SIGTERM)
        assert _last(stream).name == "bye"
        assert read_frame(socket) == (0x8, b"\x03\xe9the server stops")
    began = time.monotonic()
    server.process.wait(60)
    assert time.monotonic() - began < 30
    server.start_again()
