"""Tasks with idempotency keys."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from notes import began

from pipeweave import Context, TaskError, task


@task
def noop(ctx: Context) -> str | None:
    began(ctx)
    return ctx.step_id


@task(idempotency_key=lambda input: f"order-{input['order']}")
def charge(order: int, ctx: Context) -> dict[str, Any]:
    """Take a moment, so that others come meanwhile."""
    began(ctx)
    time.sleep(0.05)
    return {"order": order, "by": ctx.run_id}


@task(idempotency_key="inputs", idempotency_ttl="1h")
def priced(sku: str) -> str:
    return f"{sku} at {time.monotonic_ns()}"


@task(idempotency_key=lambda input: f"item-{input['number'] % 10}", retries=2, retry_delay_ms=20)
def item(number: int, ctx: Context) -> int:
    began(ctx)
    return number % 10


@task(idempotency_key=lambda input: str(input["order"]), retries=1, retry_delay_ms=20)
def held(order: str, gate: str, ctx: Context) -> int:
    """Wait for the test, the first time."""
    began(ctx)
    if ctx.attempt == 1:
        Path(gate + ".held").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
    return ctx.attempt


@task(idempotency_key=lambda input: str(input["order"]), retries=0)
def failing(order: str, gate: str, ctx: Context) -> str:
    """Fail unless the file is there."""
    began(ctx)
    Path(gate + ".held").touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    if not Path(gate + ".fine").exists():
        Path(gate + ".fine").touch()
        raise TaskError("not yet", code="NOT_YET")
    return ctx.run_id


@task(idempotency_key=lambda input, code_version: f"{input['wrong']}{code_version}"[: input["length"]])
def wrong(ctx: Context) -> None:
    began(ctx)
