"""The client for asyncio, against a small real HTTP server. It has every method of the other client."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from support import async_methods
from support.stub_http_server import Served

from pipeweave import AsyncClient, Client, errors
from pipeweave.client import DeadLetters, Run
from pipeweave.client.async_client import AsyncDeadLetters

RUNNING: dict[str, Any] = {"id": "prun_1", "pipelineId": "report", "status": "running"}
COMPLETED = {**RUNNING, "status": "completed"}
PATH = "GET /api/runs/prun_1"


def public(kind: type) -> set[str]:
    return {name for name, each in inspect.getmembers(kind) if not name.startswith("_") and callable(each)}


def test_the_file_of_its_methods_is_as_make_client_writes_it() -> None:
    assert async_methods.FILE.read_text() == async_methods.text()


def test_it_has_every_method_with_the_same_parameters() -> None:
    assert public(Client) == public(AsyncClient)
    for name in public(Client) - {"close", "wait", "watch"}:
        assert inspect.signature(getattr(Client, name)) == inspect.signature(getattr(AsyncClient, name))
    parameters = [inspect.signature(each.watch).parameters for each in (Client, AsyncClient)]
    assert parameters[0] == parameters[1]
    # A wait for a redrive takes minutes, and would hold a thread.
    assert public(DeadLetters) - public(AsyncDeadLetters) == {"wait"}


def test_it_triggers_and_waits_without_blocking_the_event_loop(served: Served) -> None:
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": "prun_1", "status": "running"}))
    served.put(PATH, *[(200, RUNNING)] * 3, (200, COMPLETED))
    steps: list[str] = []

    async def waits() -> Run:
        async with AsyncClient(served.url, "t") as client:
            return await client.wait(await client.trigger("report", {"n": 1}), timeout=30)

    async def counts() -> None:
        while True:
            steps.append("step")
            await asyncio.sleep(0)

    async def both() -> Run:
        counting = asyncio.create_task(counts())
        try:
            return await waits()
        finally:
            counting.cancel()

    assert asyncio.run(both()).status == "completed"
    assert len(steps) > 10


def test_a_cancelled_wait_ends_at_once(served: Served) -> None:
    served.put(PATH, (200, RUNNING))

    async def cancels() -> None:
        async with AsyncClient(served.url, "t") as client:
            seen = asyncio.Event()
            waiting = asyncio.create_task(client.wait("prun_1", on_change=lambda _: seen.set()))
            await seen.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(cancels())


def test_wait_raises_what_the_other_client_raises(served: Served) -> None:
    served.put(PATH, (503, b""), (503, b""), (503, b""), (200, {**RUNNING, "status": "failed"}))

    async def checks() -> None:
        async with AsyncClient(served.url, "t") as client:
            await client.wait("prun_1", check=True)

    with pytest.raises(errors.RunFailed, match="run prun_1 ended failed"):
        asyncio.run(checks())


def test_lists_are_read_page_by_page(served: Served) -> None:
    served.put(
        "GET /api/runs/prun_1/events?limit=500", (200, {"events": [{"id": 1}, {"id": 2}], "nextCursor": "c"})
    )
    served.put("GET /api/runs/prun_1/events?limit=500&cursor=c", (200, {"events": [{"id": 3}]}))

    async def reads() -> list[int]:
        async with AsyncClient(served.url, "t") as client:
            return [event["id"] async for event in client.events("prun_1")]

    assert asyncio.run(reads()) == [1, 2, 3]
