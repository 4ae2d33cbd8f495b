"""What only the first team has."""

from __future__ import annotations

from typing import Any

from chaos.tasks.acting import MANY, act
from pipeweave import Context, task


@task(retry=MANY)
def by_one(ctx: Context) -> Any:
    return act(ctx, "team_one")
