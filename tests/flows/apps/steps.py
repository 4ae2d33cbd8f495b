"""Tasks whose behaviour the run's input decides."""

from __future__ import annotations

from typing import Any

from notes import noted

from pipeweave import Context, TaskResult, task


@task
def noop(ctx: Context) -> str | None:
    with noted(ctx):
        return ctx.step_id


@task
def act(ctx: Context) -> TaskResult:
    """Do what the input says of this step: fail, choose successors, or just complete."""
    with noted(ctx):
        wishes: dict[str, Any] = ctx.input or {}
        if ctx.step_id in wishes.get("fail", ()):
            raise ValueError(f"{ctx.step_id} was told to fail")
        return TaskResult(ctx.step_id, run_next=wishes.get("choose", {}).get(ctx.step_id))


@task
def look(ctx: Context) -> dict[str, Any]:
    """What a step sees of those before it."""
    with noted(ctx):
        return dict(ctx.upstream)
