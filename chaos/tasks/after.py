"""What a deploy adds or changes."""

from __future__ import annotations

from typing import Any

from chaos.tasks.acting import MANY, act
from pipeweave import Context, task


@task(retry=MANY)
def changed(ctx: Context) -> Any:
    return act(ctx, "after")


@task(retry=MANY)
def added(ctx: Context) -> Any:
    return act(ctx, "after")
