"""What a deploy removes or changes."""

from __future__ import annotations

from typing import Any

from chaos.tasks.acting import MANY, act
from pipeweave import Context, task


@task(retry=MANY)
def changed(ctx: Context) -> Any:
    return act(ctx, "before")


@task(retry=MANY)
def removed(ctx: Context) -> Any:
    return act(ctx, "before")
