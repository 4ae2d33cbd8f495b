"""Tasks of a worker that the conformance kit checks."""

from __future__ import annotations

import time

from pipeweave import Context, Suspend, TaskError, task


@task(heartbeat_interval_ms=1_000)
def note(ctx: Context, letters: str = "a note") -> int:
    ctx.add_asset("note.txt", letters)
    ctx.log.info("a note was written")
    return len(letters)


@task(heartbeat_interval_ms=1_000)
def slow(ctx: Context, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ctx.is_cancelled:
            raise TaskError("it was cancelled", code="CANCELLED", retryable=False)
        time.sleep(0.02)


@task
def fail() -> None:
    raise TaskError("the card was declined", code="CARD_DECLINED")


@task
def submit(ctx: Context) -> Suspend:
    ctx.log.info("it will be reported to a URL", extra={"length": len(ctx.callback_url)})
    return Suspend.callback(timeout="1h")
