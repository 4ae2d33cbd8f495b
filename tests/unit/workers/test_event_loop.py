"""Calls in the event loop of a process: each ends for itself, however it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import pytest
from support.servers import wait_until

from pipeweave.errors import AttemptFenced, AttemptTimedOut
from pipeweave.workers.consumer.event_loop import EventLoop, LoopCall

LONG_S = 60.0
FENCED = AttemptFenced("the attempt is not this worker's any more")


@pytest.fixture(scope="module")
def loop() -> EventLoop:
    return EventLoop()


def begin(
    loop: EventLoop, function: Callable[[], Coroutine[Any, Any, Any]], seconds: float = LONG_S
) -> LoopCall:
    call = LoopCall(
        function.__name__, function, seconds, time.monotonic() + seconds, nullcontext, lambda _: None
    )
    loop.begin(call)
    return call


def end(loop: EventLoop, call: LoopCall) -> LoopCall:
    """Wait until a call has ended, and take it."""
    assert loop.ended(LONG_S) == [call]
    return call


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_call_gives_its_result(loop: EventLoop) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    call = end(loop, begin(loop, answer))
    assert (call.result, call.error, call.has_ended) == (42, None, True)


@pytest.mark.parametrize(
    "error", [ValueError("no"), TimeoutError("its own"), SystemExit(3), KeyboardInterrupt()]
)
def test_a_call_that_raises_ends_alone(loop: EventLoop, error: BaseException) -> None:
    async def wrong() -> None:
        raise error

    beside = begin(loop, forever)
    assert end(loop, begin(loop, wrong)).error is error
    assert not beside.has_ended
    loop.interrupt(beside, FENCED)
    end(loop, beside)


def test_a_call_whose_time_is_over_is_told_where_it_waits(loop: EventLoop) -> None:
    cleaned = threading.Event()

    async def slow() -> None:
        try:
            await forever()
        finally:
            cleaned.set()

    call = end(loop, begin(loop, slow, 0.01))
    assert isinstance(call.error, AttemptTimedOut)
    assert "Operation timed out after 10ms" in call.error.detail
    assert cleaned.is_set()
    assert call.is_over()


def test_a_call_that_is_taken_away_gets_cancelled_error(loop: EventLoop) -> None:
    told: list[bool] = []

    async def taken() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            told.append(call.is_over())
            raise

    call = begin(loop, taken)
    wait_until(lambda: call.has_begun, what="it does not begin")
    loop.interrupt(call, FENCED)
    assert end(loop, call).error is FENCED
    assert told in ([], [True])
    loop.interrupt(call, FENCED)
    assert loop.ended(0) == []


def test_a_call_that_is_taken_away_before_it_begins_is_not_called(loop: EventLoop) -> None:
    go = threading.Event()
    called: list[str] = []

    async def blocking() -> None:
        go.wait()

    async def late() -> None:
        called.append("late")

    first = begin(loop, blocking)
    wait_until(lambda: first.has_begun, what="it does not begin")
    second = begin(loop, late)
    loop.interrupt(second, FENCED)
    go.set()
    wait_until(lambda: second.has_ended, what="it does not end")
    assert (first.error, second.error) == (None, FENCED)
    while loop.ended(0):
        pass
    assert called == []


def test_what_a_call_leaves_behind_does_not_end_the_loop(loop: EventLoop) -> None:
    async def leave() -> None:
        raise SystemExit(1)

    tasks: list[asyncio.Task[None]] = []

    async def leaving() -> None:
        tasks.append(asyncio.create_task(leave()))

    async def after() -> str:
        return "goes on"

    end(loop, begin(loop, leaving))
    wait_until(lambda: tasks[0].done(), what="the task did not end")
    assert end(loop, begin(loop, after)).result == "goes on"
    assert isinstance(tasks[0].exception(), SystemExit)


def test_who_holds_the_loop_is_named(loop: EventLoop) -> None:
    go = threading.Event()

    async def blocking() -> None:
        go.wait()

    call = begin(loop, blocking)
    wait_until(lambda: loop.held()[1] == "blocking", what="nobody holds the loop")
    assert loop.held()[0] > 0
    go.set()
    end(loop, call)
    wait_until(lambda: loop.held() == (0.0, ""), what="the loop is held")
