"""A task of an HTTP worker whose work goes on elsewhere."""

from __future__ import annotations

from pathlib import Path

from pipeweave import Context, Suspend, task


@task
def http_ask(ctx: Context, told: str) -> Suspend:
    Path(told, "1.new").write_text(ctx.callback_url)
    Path(told, "1.new").rename(Path(told, "1"))
    return Suspend.callback()
