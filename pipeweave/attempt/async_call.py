"""Run one call of an `async def` task to its end, in an event loop of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any


class AsyncCall:
    """A coroutine that another thread can cancel.

    Args:
        coroutine: what the task's function has returned.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._is_cancelled = False
        self._is_over = False

    def run(self) -> Any:
        """Run the coroutine in this thread, and return its result.

        Raises:
            CancelledError: it was cancelled.
        """
        return asyncio.run(self._main())

    async def _main(self) -> Any:
        task = asyncio.ensure_future(self._coroutine)
        with self._lock:
            self._running = asyncio.get_running_loop(), task
            if self._is_cancelled:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._is_over = True

    def cancel(self) -> None:
        """Raise CancelledError where the coroutine waits; nothing if it has ended. Any thread may call it."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None and not self._is_over:
                loop, task = self._running
                loop.call_soon_threadsafe(task.cancel)


def call_to_end(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function; if it is `async def`, run it to its end, also where an event loop runs already."""
    result = function(**arguments)
    if not asyncio.iscoroutine(result):
        return result
    call = AsyncCall(result)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call.run()
    # A test that is asynchronous itself: its own loop waits for this thread.
    return _in_thread(call.run)


def _in_thread(function: Callable[[], Any]) -> Any:
    ended: list[tuple[Any, BaseException | None]] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            ended.append((context.run(function), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=run, name="async task")
    thread.start()
    thread.join()
    result, error = ended[0]
    if error is not None:
        raise error
    return result
