"""The tasks that both teams have."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from chaos.catalogue import ATTEMPTS, LIMITS
from chaos.tasks.acting import MANY, act, act_async, be_polled, hand_on, notebook
from pipeweave import Context, Retry, Suspend, task

# An attempt that is to exceed its time limit (s) would go on for this long (s).
LIMIT_S = 1.0
FAR_TOO_LONG_S = 60.0


@task(retry=MANY)
def work(ctx: Context) -> Any:
    """Behave as the input says."""
    return act(ctx)


@task(retry=MANY, heartbeat_interval_ms=1_000)
async def awaited(ctx: Context) -> Any:
    """As `work`, beside other calls of its process."""
    return await act_async(ctx)


@task(retry=MANY, concurrency=LIMITS["limited"])
def limited(ctx: Context) -> Any:
    """As `work`, at most two at a time."""
    return act(ctx)


@task(retry=MANY, concurrency=LIMITS["single"])
def single(ctx: Context) -> Any:
    """As `work`, one at a time."""
    return act(ctx)


@task(retry=MANY, heartbeat_interval_ms=1_000)
def slow(ctx: Context) -> Any:
    """As `work`, with a heartbeat every half second, for steps that take seconds."""
    return act(ctx)


@task(retry=Retry(attempts=ATTEMPTS["hopeless"], delay_ms=100, max_delay_ms=400))
def hopeless(ctx: Context) -> Any:
    """Fail until no attempt is left."""
    with notebook.noted(ctx, {}):
        raise ValueError("this never works")


@task(retry=Retry(attempts=ATTEMPTS["endless"], delay_ms=100, max_delay_ms=400), timeout=LIMIT_S)
def endless(ctx: Context) -> Any:
    """Exceed the time limit until no attempt is left."""
    with notebook.noted(ctx, {}):
        time.sleep(FAR_TOO_LONG_S)


@task(retry=Retry(attempts=ATTEMPTS["stubborn"]), timeout=LIMIT_S)
def stubborn(ctx: Context) -> Any:
    """Ignore the time limit, so that only the end of the process ends it."""
    until = time.monotonic() + FAR_TOO_LONG_S
    with notebook.noted(ctx, {}):
        while time.monotonic() < until:
            try:
                time.sleep(1)
            except Exception:
                continue


@task(retry=MANY, timeout=LIMIT_S)
def late(ctx: Context) -> Any:
    """Exceed the time limit once."""
    with notebook.noted(ctx, {}) as token:
        if ctx.attempt == 1:
            time.sleep(FAR_TOO_LONG_S)
        return token


@task(retry=MANY, timeout=LIMIT_S)
async def tardy(ctx: Context) -> Any:
    """As `late`, beside other calls of its process."""
    with notebook.noted(ctx, {}) as token:
        if ctx.attempt == 1:
            await asyncio.sleep(FAR_TOO_LONG_S)
        return token


@task(retry=MANY, concurrency=LIMITS["asked"])
def asked(ctx: Context) -> Suspend:
    """Hand the work on to another system, which reports to the URL of the attempt."""
    return hand_on(ctx)


@task(retry=MANY)
def polled(ctx: Context) -> Suspend:
    """Hand the work on to another system, which is asked for the result."""
    return be_polled(ctx)
