"""Tasks with a sandbox, and one without: what they do is a text in their input."""

from __future__ import annotations

import os
from typing import Any

from pipeweave import Context, Sandbox, task

SMALL = Sandbox(memory="64M", cpu="500ms", files=["tmp"])


@task(sandbox=SMALL, retries=0, timeout=60)
def boxed(source: str, ctx: Context) -> Any:
    """Execute a source; its `outcome` is the output."""
    names: dict[str, Any] = {"os": os, "ctx": ctx, "outcome": None}
    exec(source, names)
    return names["outcome"]


@task(retries=0)
def free(ctx: Context) -> int:
    """Say which process of the worker this is."""
    return os.getpid()


@task(memory="64M", cpu="300ms", retries=0)
def limited(kind: str) -> None:
    """Take too much of the worker's own process."""
    kept = []
    while True:
        if kind == "memory":
            kept.append(bytearray(1 << 20))
