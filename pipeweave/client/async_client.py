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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from pipeweave.client.client import Client
from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.following import signal_of
from pipeweave.client.http import POOLED_CONNECTIONS
from pipeweave.client.models import Document, Run
from pipeweave.client.runs import run_id_of
from pipeweave.client.waiting import Waiting
from pipeweave.errors import RunEnqueued, TooManyStreams, Unavailable

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Threads:
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


class _InThreads:
    """Calls the methods of a `target` of Client's in threads."""

    def __init__(self, target: Any, threads: _Threads) -> None:
        self._target = target
        self._threads = threads


def _awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The method of Client, or of DeadLetters, as one that is awaited."""

    @functools.wraps(method)
    async def call(self: _InThreads, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.call(functools.partial(method, self._target, *args, **kwargs))

    return call


def _iterated(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """The method of Client, or of DeadLetters, as one for `async for`."""

    @functools.wraps(method)
    async def iterate(self: _InThreads, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        rows = method(self._target, *args, **kwargs)
        while page := await self._threads.call(functools.partial(_some, rows)):
            for row in page:
                yield row

    return iterate


# Rows that a thread reads from an iterator before it hands them to the event loop.
_ROWS_AT_ONCE = 100


def _some(rows: Iterator[T]) -> list[T]:
    return [row for row, _ in zip(rows, range(_ROWS_AT_ONCE), strict=False)]


class AsyncDeadLetters(_InThreads):
    """`DeadLetters` for asyncio."""

    page = _awaited(DeadLetters.page)
    all = _iterated(DeadLetters.all)
    groups = _awaited(DeadLetters.groups)
    get = _awaited(DeadLetters.get)
    retry = _awaited(DeadLetters.retry)
    discard = _awaited(DeadLetters.discard)
    retry_all = _awaited(DeadLetters.retry_all)
    redrive = _awaited(DeadLetters.redrive)
    redrives = _awaited(DeadLetters.redrives)
    cancel_redrive = _awaited(DeadLetters.cancel_redrive)
    discard_all = _awaited(DeadLetters.discard_all)
    purge = _awaited(DeadLetters.purge)


class AsyncClient(_InThreads):
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
        super().__init__(Client(url, token, tenant, timeout, data_dir=data_dir), _Threads())
        # Beside the threads for requests: what waits for a stream must not hold those up.
        self._waits = _Threads()
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
        waiting = Waiting(run_id, timeout, on_change)
        signal = signal_of(self._target, run_id, is_shown=on_change is not None)
        async with self._waits.place() as has_place:
            try:
                while True:
                    waiting.asks()
                    try:
                        found: Run = await self.run(run_id)
                    except Unavailable as error:
                        await asyncio.sleep(waiting.pause_after_outage(error))
                        continue
                    except RunEnqueued:
                        await asyncio.sleep(waiting.pause_before_start())
                        continue
                    waiting.saw(found)
                    if found.is_final:
                        return found.checked() if check else found
                    least, most = waiting.pause_after(found)
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
    ) -> AsyncIterator[Document]:
        """As `Client.watch`, for `async for`; up to 16 at once, with the waits that use a stream."""
        changes = self._target.watch(run, pipeline=pipeline, types=types, cursor=cursor)
        async with self._waits.place() as has_place:
            if not has_place:
                raise TooManyStreams(f"this client watches {POOLED_CONNECTIONS} streams already")
            try:
                while True:
                    yield await self._waits.call(functools.partial(next, changes))
            finally:
                changes.close()

    trigger = _awaited(Client.trigger)
    trigger_batch = _awaited(Client.trigger_batch)
    run = _awaited(Client.run)
    runs = _awaited(Client.runs)
    state = _awaited(Client.state)
    export = _iterated(Client.export)
    export_pages = _iterated(Client.export_pages)
    cancel = _awaited(Client.cancel)
    rerun = _awaited(Client.rerun)
    rerun_all = _awaited(Client.rerun_all)
    pause_run = _awaited(Client.pause_run)
    resume_run = _awaited(Client.resume_run)
    change_runs = _awaited(Client.change_runs)
    bulk = _awaited(Client.bulk)
    bulk_changes = _awaited(Client.bulk_changes)
    bulk_change = _awaited(Client.bulk_change)
    bulk_runs = _iterated(Client.bulk_runs)
    stop_bulk = _awaited(Client.stop_bulk)
    cancel_task = _awaited(Client.cancel_task)
    task_run = _awaited(Client.task_run)
    task_runs = _iterated(Client.task_runs)
    find_task_runs = _awaited(Client.find_task_runs)
    all_task_runs = _awaited(Client.all_task_runs)
    search = _awaited(Client.search)
    events = _iterated(Client.events)
    events_page = _awaited(Client.events_page)
    ledger = _awaited(Client.ledger)
    attempts = _iterated(Client.attempts)
    compare = _awaited(Client.compare)
    verify_run = _awaited(Client.verify_run)
    why_run = _awaited(Client.why_run)
    forecast = _awaited(Client.forecast)
    queue = _awaited(Client.queue)
    queue_batch = _awaited(Client.queue_batch)
    queue_status = _awaited(Client.queue_status)
    why = _awaited(Client.why)
    pause = _awaited(Client.pause)
    resume = _awaited(Client.resume)
    limits = _awaited(Client.limits)
    set_limits = _awaited(Client.set_limits)
    pipelines = _awaited(Client.pipelines)
    graph = _awaited(Client.graph)
    draw_graph = _awaited(Client.draw_graph)
    pipeline = _awaited(Client.pipeline)
    put_pipeline = _awaited(Client.put_pipeline)
    versions = _awaited(Client.versions)
    dry_run = _awaited(Client.dry_run)
    schedules = _awaited(Client.schedules)
    schedule_calendar = _awaited(Client.schedule_calendar)
    schedule = _awaited(Client.schedule)
    put_schedule = _awaited(Client.put_schedule)
    delete_schedule = _awaited(Client.delete_schedule)
    pause_schedule = _awaited(Client.pause_schedule)
    resume_schedule = _awaited(Client.resume_schedule)
    fire_schedule = _awaited(Client.fire_schedule)
    backfill_schedule = _awaited(Client.backfill_schedule)
    preview_schedule = _awaited(Client.preview_schedule)
    triggers = _awaited(Client.triggers)
    read_trigger = _awaited(Client.read_trigger)
    put_trigger = _awaited(Client.put_trigger)
    delete_trigger = _awaited(Client.delete_trigger)
    pause_trigger = _awaited(Client.pause_trigger)
    resume_trigger = _awaited(Client.resume_trigger)
    rotate_trigger_secret = _awaited(Client.rotate_trigger_secret)
    services = _awaited(Client.services)
    service = _awaited(Client.service)
    change_service = _awaited(Client.change_service)
    tasks = _awaited(Client.tasks)
    remove_task = _awaited(Client.remove_task)
    deploys = _awaited(Client.deploys)
    storage_backends = _awaited(Client.storage_backends)
    stored_value = _awaited(Client.stored_value)
    object_preview = _awaited(Client.object_preview)
    storage_usage = _awaited(Client.storage_usage)
    download = _awaited(Client.download)
    upload = _awaited(Client.upload)
    uploads = _iterated(Client.uploads)
    upload_of = _awaited(Client.upload_of)
    delete_upload = _awaited(Client.delete_upload)
    upload_stats = _awaited(Client.upload_stats)
    task_run_logs = _awaited(Client.task_run_logs)
    sweep_storage = _awaited(Client.sweep_storage)
    health = _awaited(Client.health)
    info = _awaited(Client.info)
    maintenance = _awaited(Client.maintenance)
    request_maintenance = _awaited(Client.request_maintenance)
    enter_maintenance = _awaited(Client.enter_maintenance)
    exit_maintenance = _awaited(Client.exit_maintenance)
    tick = _awaited(Client.tick)
    workers = _awaited(Client.workers)
    worker = _awaited(Client.worker)
    drain_worker = _awaited(Client.drain_worker)
    resume_worker = _awaited(Client.resume_worker)
    queues = _awaited(Client.queues)
    queue_detail = _awaited(Client.queue_detail)
    queue_items = _iterated(Client.queue_items)
    enqueued_runs = _awaited(Client.enqueued_runs)
    task = _awaited(Client.task)
    set_task_limits = _awaited(Client.set_task_limits)
    tenants = _awaited(Client.tenants)
    tenant = _awaited(Client.tenant)
    set_tenant = _awaited(Client.set_tenant)
    audit = _awaited(Client.audit)
    views = _awaited(Client.views)
    save_view = _awaited(Client.save_view)
    delete_view = _awaited(Client.delete_view)
    login_link = _awaited(Client.login_link)
    timeline = _awaited(Client.timeline)
    run_stats = _awaited(Client.run_stats)
    task_stats = _awaited(Client.task_stats)
    stats_by_pipeline = _awaited(Client.stats_by_pipeline)
    stats_by_queue = _awaited(Client.stats_by_queue)
    stats_by_task = _awaited(Client.stats_by_task)
