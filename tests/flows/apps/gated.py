"""A task of an HTTP worker that works until a file is there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from notes import began

from pipeweave import Context, task


@task(heartbeat_interval_ms=400, retries=3, retry_delay_ms=10)
def gated(ctx: Context, gate: str) -> int:
    began(ctx)
    while not Path(gate).exists():
        time.sleep(0.02)
    return os.getpid()
