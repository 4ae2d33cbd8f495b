"""The client for asyncio: the methods of `Client`, each of them awaited.

    async with AsyncClient() as client:
        run = await client.trigger("stdlib-report", {"limit": 100})
        print((await client.wait(run)).status)

There is one implementation: `Client` sends each request in a thread, so that the event loop is never blocked;
`wait` sleeps in the event loop between its requests (docs/decisions/0020-an-async-client-in-threads.md).
Cancelling a task ends its wait at once; a request that was sent is not taken back.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from pipeweave.client.async_methods import AsyncDeadLetters, AsyncMethods
from pipeweave.client.client import Client
from pipeweave.client.following import signal_of
from pipeweave.client.http import POOLED_CONNECTIONS
from pipeweave.client.models import Document, Run
from pipeweave.client.runs import run_id_of
from pipeweave.client.threads import Threads
from pipeweave.client.waiting import RunWait
from pipeweave.errors import RunEnqueued, TooManyStreams, Unavailable


class AsyncClient(AsyncMethods):
    """A client of one orchestrator for asyncio.

    Args:
        url, token, tenant, timeout, data_dir: as for `Client`.

    Raises:
        InvalidInput, InvalidSetting, Unavailable: as `Client`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        *,
        data_dir: str | Path | None = None,
    ) -> None:
        super().__init__(Client(url, token, tenant, timeout, data_dir=data_dir), Threads())
        # Beside the threads for requests: what waits for a stream must not hold those up.
        self._waits = Threads()
        self._dlq = AsyncDeadLetters(self._target.dlq, self._threads)

    @property
    def url(self) -> str:
        """The API's URL."""
        return str(self._target.url)

    @property
    def dlq(self) -> AsyncDeadLetters:
        """The dead letters: task runs that failed and are not retried any more."""
        return self._dlq

    async def close(self) -> None:
        """Close the pooled connections; requests that were sent and not answered are given up."""
        self._target.close()
        self._threads.close()
        self._waits.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def wait(
        self,
        run: str | Run,
        timeout: float | None = None,
        on_change: Callable[[Run], None] | None = None,
        *,
        check: bool = False,
    ) -> Run:
        """As `Client.wait`; `on_change` is called in the event loop."""
        run_id = run_id_of(run)
        waiting = RunWait(run_id, timeout, on_change)
        signal = signal_of(self._target, run_id, is_shown=on_change is not None)
        async with self._waits.place() as has_place:
            try:
                while True:
                    waiting.asks()
                    try:
                        current_run: Run = await self.run(run_id)
                    except Unavailable as error:
                        await asyncio.sleep(waiting.pause_after_outage(error))
                        continue
                    except RunEnqueued:
                        await asyncio.sleep(waiting.pause_before_start())
                        continue
                    waiting.saw(current_run)
                    if current_run.is_final:
                        return current_run.checked() if check else current_run
                    least, most = waiting.pause_after(current_run)
                    if has_place:
                        await self._waits.call(functools.partial(signal.pause, least, most))
                    else:
                        await asyncio.sleep(least)
            finally:
                signal.close()

    async def watch(
        self,
        run: str | Run | None = None,
        *,
        pipeline: str | None = None,
        types: Sequence[str] | None = None,
        cursor: str | None = None,
        tree: bool = False,
    ) -> AsyncIterator[Document]:
        """As `Client.watch`, for `async for`; up to 16 at once, with the waits that use a stream."""
        changes = self._target.watch(run, pipeline=pipeline, types=types, cursor=cursor, tree=tree)
        async with self._waits.place() as has_place:
            if not has_place:
                raise TooManyStreams(f"this client watches {POOLED_CONNECTIONS} streams already")
            try:
                while True:
                    yield await self._waits.call(functools.partial(next, changes))
            finally:
                changes.close()
