"""One call of an `async def` task, in a loop of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.servers import wait_until

from pipeweave.attempt import AsyncCall, call_to_end


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


def test_a_call_is_run_to_its_end() -> None:
    assert call_to_end(double, {"number": 2}) == 4
    assert call_to_end(lambda number: number, {"number": 2}) == 2
    with pytest.raises(ValueError, match="no"):
        call_to_end(fail, {})


def test_a_call_is_run_to_its_end_where_a_loop_runs_already() -> None:
    async def test() -> None:
        assert call_to_end(double, {"number": 2}) == 4
        with pytest.raises(ValueError, match="no"):
            call_to_end(fail, {})

    asyncio.run(test())


def test_another_thread_cancels_a_call() -> None:
    waits = threading.Event()
    ended: list[str] = []

    async def wait() -> None:
        waits.set()
        await asyncio.Event().wait()

    call = AsyncCall(wait())

    def run() -> None:
        try:
            call.run()
        except asyncio.CancelledError:
            ended.append("cancelled")

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(waits.is_set, what="it does not run")
    call.cancel()
    thread.join()
    call.cancel()
    assert ended == ["cancelled"]


def test_a_call_that_was_cancelled_before_does_not_run_to_its_end() -> None:
    call = AsyncCall(asyncio.sleep(60))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        call.run()
