"""Tasks whose calls note when they began and ended, and under which attempt."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from notes import noted

from pipeweave import Context, task


@task(retries=5, retry_delay_ms=20)
def work(seconds: float, ctx: Context) -> str | None:
    with noted(ctx, ctx.attempt):
        time.sleep(seconds)
        return ctx.step_id


@task(retries=5, retry_delay_ms=20)
def held(gate: str, ctx: Context) -> str | None:
    """Say that it was called, and go on when the test says so."""
    with noted(ctx, ctx.attempt):
        Path(f"{gate}.held").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
        return ctx.step_id


@task(retries=5, retry_delay_ms=20)
async def held_beside_others(gate: str, ctx: Context) -> str | None:
    """As `held`, on the event loop."""
    with noted(ctx, ctx.attempt):
        Path(f"{gate}.held").touch()
        while not Path(gate).exists():
            await asyncio.sleep(0.01)
        return ctx.step_id
