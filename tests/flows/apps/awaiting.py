"""`async def` tasks that wait for each other, for the test, or too long."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from notes import began, noted

from pipeweave import Context, TaskResult, task

_met: dict[str, int] = {}


async def _until(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


@task
def noop(ctx: Context) -> str | None:
    with noted(ctx):
        return ctx.step_id


@task(retries=0)
async def meets(number: int, count: int, ctx: Context) -> TaskResult:
    """End when so many calls of the run are under way in this process."""
    began(ctx)
    _met[ctx.run_id] = _met.get(ctx.run_id, 0) + 1
    while _met[ctx.run_id] < count:
        await asyncio.sleep(0.01)
    ctx.add_asset(f"n{number}.txt", f"asset {number}")
    return TaskResult([number, os.getpid()])


@task(concurrent=3, retries=0)
async def crowd(number: int, ctx: Context) -> int:
    """Give how many calls were under way."""
    _met[ctx.run_id] = _met.get(ctx.run_id, 0) + 1
    await asyncio.sleep(0.05)
    seen = _met[ctx.run_id]
    _met[ctx.run_id] -= 1
    return seen


@task(retries=2, retry_delay_ms=20, retry_backoff="fixed", heartbeat_interval_ms=400)
async def gated(number: int, gate: str, ctx: Context, held: int = -1) -> int:
    """Wait for the test; with `held`, only that item, and only its first attempt."""
    began(ctx)
    ctx.progress(50, f"item {number}")
    if held in (-1, number) and ctx.attempt == 1:
        try:
            await _until(Path(gate))
        except asyncio.CancelledError:
            Path(f"{gate}.cancelled").write_text(str(ctx.is_cancelled))
            raise
    return number


@task(timeout=0.5, retries=0)
async def late(number: int, ctx: Context) -> int:
    """The first item waits too long, the others fail or end at once."""
    if number == 0:
        await asyncio.sleep(60)
    if number == 1:
        raise ValueError("not this one")
    return number


@task(timeout=1, retries=1, retry_delay_ms=20)
async def blocks(number: int, gate: str, ctx: Context) -> int:
    """The first item holds the loop beyond its time limit, once; the others wait meanwhile."""
    began(ctx)
    if number == 0 and ctx.attempt == 1:
        while len(list(Path(gate).glob("*"))) < 3:
            await asyncio.sleep(0.01)
        time.sleep(60)
    Path(gate, str(number)).touch()
    if ctx.attempt == 1:
        await asyncio.sleep(0.9)
    return number


@task(retries=0)
async def talks(number: int, count: int, ctx: Context) -> None:
    """Print a line in two parts, while the others print theirs."""
    print(f"{number} begins", end="")
    _met[ctx.run_id] = _met.get(ctx.run_id, 0) + 1
    while _met[ctx.run_id] < count:
        await asyncio.sleep(0.01)
    print(" and ends")
    ctx.log.info("logged by %s", number)


def keyed(input: Any) -> str:
    return f"of-{input['number'] % 2}"


@task(retries=0, idempotency_key=keyed)
async def shared(number: int, ctx: Context) -> int:
    """Of each key one is called."""
    with noted(ctx):
        await asyncio.sleep(0.05)
        return number % 2
