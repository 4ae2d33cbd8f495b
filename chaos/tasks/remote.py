"""What the HTTP service has."""

from __future__ import annotations

from typing import Any

from chaos.tasks.acting import MANY, act
from pipeweave import Context, task


@task(retry=MANY, heartbeat_interval_ms=1_000)
def remote(ctx: Context) -> Any:
    return act(ctx, "remote")
