"""Tasks that fail until someone mends what they need: a file in their way is removed."""

from __future__ import annotations

from pathlib import Path

from notes import noted

from pipeweave import Context, TaskResult, task


def _mend(ctx: Context) -> TaskResult:
    """Fail while a file named like the step (and the item) lies in the folder that the input names."""
    with noted(ctx, seen=[ctx.attempt, len(ctx.previous_attempts)]):
        name = ctx.step_id or "alone"
        place = name if ctx.map_index is None else f"{name}.{ctx.map_index}"
        if (Path(ctx.input["broken"]) / place).exists():
            raise ValueError(f"{place} is broken")
        return TaskResult(place)


@task(retries=0)
def mend(ctx: Context) -> TaskResult:
    return _mend(ctx)


@task(retries=0, concurrency=2)
def mend_limited(ctx: Context) -> TaskResult:
    return _mend(ctx)


@task
def noop(ctx: Context) -> None:
    with noted(ctx):
        return
