"""Turn the methods of the client into methods for asyncio: each calls its method in a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, Concatenate, ParamSpec, TypeVar

from pipeweave.client.http import POOLED_CONNECTIONS

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Threads:
    """Calls functions in threads of its own, so that slow requests take none of the program's threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(POOLED_CONNECTIONS, thread_name_prefix="pipeweave-client")
        self._taken = 0

    async def call(self, function: Callable[[], T]) -> T:
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, function)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[bool]:
        """A thread for something that waits for long; False when all are taken."""
        has_place = self._taken < POOLED_CONNECTIONS
        self._taken += has_place
        try:
            yield has_place
        finally:
            self._taken -= has_place

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class InThreads:
    """Calls the methods of a `target` of Client's in threads."""

    def __init__(self, target: Any, threads: Threads) -> None:
        self._target = target
        self._threads = threads


def awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The method of Client, or of DeadLetters, as one that is awaited."""

    @functools.wraps(method)
    async def call(self: InThreads, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.call(functools.partial(method, self._target, *args, **kwargs))

    return call


def iterated(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """The method of Client, or of DeadLetters, as one for `async for`."""

    @functools.wraps(method)
    async def iterate(self: InThreads, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        rows = method(self._target, *args, **kwargs)
        while page := await self._threads.call(functools.partial(_some, rows)):
            for row in page:
                yield row

    return iterate


# Rows that a thread reads from an iterator before it hands them to the event loop.
_ROWS_AT_ONCE = 100


def _some(rows: Iterator[T]) -> list[T]:
    return [row for row, _ in zip(rows, range(_ROWS_AT_ONCE), strict=False)]
