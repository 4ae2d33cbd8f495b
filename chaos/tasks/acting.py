"""What all tasks do: note that they are called, and behave as the run's input says."""

from __future__ import annotations

import time
from typing import Any

from chaos.catalogue import PLENTY
from chaos.notes import VARIABLE, Notebook
from pipeweave import Context, Retry, TaskError, TaskResult
from pipeweave.settings import environment

notebook = Notebook(environment()[VARIABLE])

# Faults use up attempts. A step that is to succeed has so many that no plan of faults uses them all.
MANY = Retry(attempts=PLENTY, delay_ms=100, max_delay_ms=800, jitter=0.5)


def act(ctx: Context, part: str = "common") -> Any:
    """Behave as the input says.

    Args:
        part: the part of the code that is called.
    """
    behaviour: dict[str, Any] = ctx.input["steps"].get(ctx.step_id, {})
    saw: dict[str, Any] = {}
    with notebook.noted(ctx, saw, part) as token:
        saw |= {name: ctx.upstream.get(name) for name in behaviour.get("look", ())}
        time.sleep(behaviour.get("seconds", ctx.input["seconds"]))
        if _is_refused(ctx, behaviour.get("refuse")):
            raise TaskError("no attempt can help", code="REFUSED", retryable=False)
        if ctx.attempt <= behaviour.get("failures", 0):
            raise ValueError(f"attempt {ctx.attempt} was told to fail")
        return TaskResult(token, run_next=behaviour.get("choose"))


def _is_refused(ctx: Context, refused: list[int] | bool | None) -> bool:
    """Whether this call must fail: `refused` is True, or has the index of its item."""
    return refused is True or (isinstance(refused, list) and ctx.map_index in refused)
