"""Tasks of an HTTP worker that work until a file is there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from notes import began

from pipeweave import Context, task


@task(heartbeat_interval_ms=400, retries=3, retry_delay_ms=10)
def gated(ctx: Context, gate: str) -> int:
    return work(ctx, gate)


@task(heartbeat_interval_ms=20_000)
def patient(ctx: Context, gate: str) -> int:
    """As `gated`; an API that starts again on a busy machine does not end its attempt."""
    return work(ctx, gate)


def work(ctx: Context, gate: str) -> int:
    """Work until the file is there; the process."""
    began(ctx)
    while not Path(gate).exists():
        time.sleep(0.02)
    return os.getpid()
