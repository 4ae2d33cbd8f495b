"""Runs the calls of `async def` tasks in one event loop, in a thread of its own, for the life of the process.

Only users' code runs here. What speaks to PostgreSQL and to the storage, before and after a call, runs in the
main thread: it must not keep the other calls waiting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from pipeweave.errors import AttemptTimedOut, PipeWeaveError

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class LoopCall:
    """One call.

    Args:
        name: of its asyncio task.
        function: makes the coroutine.
        limit: how long the call may take (s).
        deadline: when this time is over (s, monotonic clock).
        around: what surrounds the call in its own context.
        on_end: called when it has ended, in the thread of the loop.
        result: what the function returned.
        error: what it raised.
    """

    name: str
    function: Callable[[], Coroutine[Any, Any, Any]]
    limit: float
    deadline: float
    around: Callable[[], AbstractContextManager[None]]
    on_end: Callable[[LoopCall], None]
    result: Any = None
    error: BaseException | None = None
    has_begun: bool = False
    has_ended: bool = False
    reason: PipeWeaveError | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def is_over(self) -> bool:
        """Whether the call has no more time, or was to be interrupted."""
        return self.reason is not None or time.monotonic() >= self.deadline

    @property
    def left(self) -> float:
        """How long (s) the call may still take; more than 0."""
        return max(self.deadline - time.monotonic(), 0.001)


class EventLoop:
    """The loop of a process. Its thread starts with the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: SimpleQueue[LoopCall] = SimpleQueue()
        # When the loop was asked for a sign of life that it has not given yet (s, monotonic clock).
        self._asked: float | None = None

    def begin(self, call: LoopCall) -> None:
        """Call an async function."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run, args=[self._loop], name="event loop", daemon=True).start()
        self._loop.call_soon_threadsafe(self._begin, self._loop, call)

    def ended(self, seconds: float) -> list[LoopCall]:
        """The calls that have ended since it was asked; it waits so long (s) for the first of them."""
        calls: list[LoopCall] = []
        try:
            calls.append(self._ended.get(timeout=seconds))
            while True:
                calls.append(self._ended.get_nowait())
        except Empty:
            return calls

    def interrupt(self, call: LoopCall, reason: PipeWeaveError) -> None:
        """Raise CancelledError where the call waits; nothing if it has ended."""
        if self._loop is not None and not call.has_ended:
            call.reason = reason
            self._loop.call_soon_threadsafe(_cancel, call)

    def held(self) -> tuple[float, str]:
        """How long (s) the loop has given no sign of life, and the name of the task that holds it; look from
        time to time. 0 while it goes on.
        """
        loop = self._loop
        if loop is None:
            return 0.0, ""
        if (asked := self._asked) is None:
            self._asked = time.monotonic()
            loop.call_soon_threadsafe(self._live)
            return 0.0, ""
        holder = asyncio.current_task(loop)
        return time.monotonic() - asked, "" if holder is None else holder.get_name()

    def _live(self) -> None:
        self._asked = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            except BaseException:
                # SystemExit in a task that a call has started: the other calls go on.
                log.exception("event_loop.interrupted")

    def _begin(self, loop: asyncio.AbstractEventLoop, call: LoopCall) -> None:
        call.task = loop.create_task(self._call(call), name=call.name)

    async def _call(self, call: LoopCall) -> None:
        try:
            with call.around():
                await _limited(call)
        except BaseException as error:
            call.error = error
        call.has_ended = True
        try:
            call.on_end(call)
        finally:
            # Whatever happens: the main thread waits for it.
            self._ended.put(call)


async def _limited(call: LoopCall) -> None:
    call.has_begun = True
    if call.reason is not None:
        call.error = call.reason
        return
    try:
        # The loop's clock is the monotonic clock.
        async with asyncio.timeout_at(call.deadline) as limit:
            call.result = await call.function()
    except BaseException as error:
        # SystemExit would end the thread of the loop: it is a failure, as any other exception.
        if call.reason is not None:
            call.error = call.reason
        elif isinstance(error, TimeoutError) and limit.expired():
            where = error.__cause__ or error
            call.error = AttemptTimedOut.after(call.limit)
            call.error.__traceback__ = where.__traceback__
        else:
            call.error = error


def _cancel(call: LoopCall) -> None:
    # A task that is cancelled before its first step never takes one, so that its end would never be told of.
    # A call that has not begun looks at its reason instead.
    if call.task is not None and call.has_begun and not call.has_ended:
        call.task.cancel()
