"""Tasks that tell in which span they are."""

from __future__ import annotations

import asyncio

from opentelemetry import trace

from pipeweave import task


def _span() -> dict[str, str]:
    found = trace.get_current_span().get_span_context()
    return {"trace": f"{found.trace_id:032x}", "span": f"{found.span_id:016x}"}


@task
def span_of_call() -> dict[str, str]:
    return _span()


@task
async def span_of_async_call() -> dict[str, str]:
    await asyncio.sleep(0)
    return _span()
