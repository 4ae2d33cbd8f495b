"""Tasks whose work goes on elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

from notes import began, noted

from pipeweave import Context, Suspend, task


@task
def noop(ctx: Context) -> str | None:
    with noted(ctx):
        return ctx.step_id


@task(retries=1, retry_delay_ms=20, retry_backoff="fixed", heartbeat_interval_ms=400)
def ask(ctx: Context, told: str, hold: str | None = None, number: int = 0) -> Suspend:
    """Tell the test where to report; with `hold`, the first attempt returns only when that file is there."""
    began(ctx)
    name = f"{ctx.attempt}" if ctx.map_index is None else f"{ctx.attempt}-{ctx.map_index}"
    place = Path(told) / name
    place.with_suffix(".new").write_text(ctx.callback_url)
    place.with_suffix(".new").rename(place)
    while hold is not None and ctx.attempt == 1 and not Path(hold).exists():
        time.sleep(0.01)
    return Suspend.callback(timeout="1h")


@task
async def ask_async(ctx: Context, told: str) -> Suspend:
    began(ctx)
    Path(told, "async.new").write_text(ctx.callback_url)
    Path(told, "async.new").rename(Path(told, "async"))
    return Suspend.callback()


@task
def poll(ctx: Context, url: str) -> Suspend:
    began(ctx)
    return Suspend.poll(url, interval=1, tries=100, timeout="5m")


@task
def says(ctx: Context, pending: dict[str, str]) -> dict[str, str]:
    """Return what a literal says."""
    began(ctx)
    return pending
