"""What all tasks do: note that they are called, and behave as the run's input says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import urllib.request
from typing import Any

from chaos.catalogue import PADDING, PLENTY, without_padding
from chaos.notes import VARIABLE, Notebook
from chaos.waits import elsewhere
from pipeweave import Context, Retry, Suspend, TaskError, TaskResult
from pipeweave.settings import environment

notebook = Notebook(environment()[VARIABLE])

# Faults use up attempts. A step that is to succeed has so many that no plan of faults uses them all.
MANY = Retry(attempts=PLENTY, delay_ms=100, max_delay_ms=800, jitter=0.5)


def act(ctx: Context, part: str = "common") -> Any:
    """Behave as the input says.

    Args:
        part: the part of the code that is called.
    """
    saw: dict[str, Any] = {}
    with notebook.noted(ctx, saw, part) as token:
        time.sleep(_seconds(ctx))
        return _end(ctx, saw, token)


async def act_async(ctx: Context) -> Any:
    """As `act`, beside other calls."""
    saw: dict[str, Any] = {}
    with notebook.noted(ctx, saw) as token:
        await asyncio.sleep(_seconds(ctx))
        return _end(ctx, saw, token)


# How long (s) a call waits for the other system to take the work, and how long that may take for it.
HAND_OVER_S = 5.0
_LONG = "1h"


def hand_on(ctx: Context) -> Suspend:
    """Hand the work on, and then die or stay for a while, as the input says."""
    behaviour = _behaviour(ctx)
    with notebook.noted(ctx, {}) as token:
        _hand_over(ctx, token, behaviour)
        if ctx.attempt <= behaviour.get("dies", 0):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_seconds(ctx))
        return Suspend.callback(timeout=_LONG)


def _hand_over(ctx: Context, token: str, behaviour: dict[str, Any]) -> None:
    ids = {"run_id": ctx.run_id, "task_run_id": ctx.task_run_id, "attempt": ctx.attempt}
    work = {"delay": behaviour.get("delay", 0.0), "fails": ctx.attempt <= behaviour.get("failures", 0)}
    body = json.dumps({**ids, **work, "path": ctx.callback_url, "token": token}).encode()
    url = elsewhere.url_of_call(environment()[elsewhere.VARIABLE])
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=HAND_OVER_S) as answer:
        answer.read()


def be_polled(ctx: Context) -> Suspend:
    """Let the other system be asked for the result."""
    behaviour = _behaviour(ctx)
    with notebook.noted(ctx, {}) as token:
        final = "failed" if ctx.attempt <= behaviour.get("failures", 0) else "completed"
        base = environment()[elsewhere.VARIABLE]
        url = elsewhere.url_of_poll(base, token, behaviour.get("ways", []), final)
        return Suspend.poll(url, interval=1, tries=3_000, timeout=_LONG)


def _seconds(ctx: Context) -> float:
    return float(_behaviour(ctx).get("seconds", ctx.input["seconds"]))


def _behaviour(ctx: Context) -> dict[str, Any]:
    return dict(ctx.input["steps"].get(ctx.step_id, {}))


def _end(ctx: Context, saw: dict[str, Any], token: str) -> TaskResult:
    """End as the input says; what it is to look at is noted in `saw`."""
    behaviour = _behaviour(ctx)
    saw |= {name: without_padding(ctx.upstream.get(name)) for name in behaviour.get("look", ())}
    if _is_refused(ctx, behaviour.get("refuse")):
        raise TaskError("no attempt can help", code="REFUSED", retryable=False)
    if ctx.attempt <= behaviour.get("failures", 0):
        raise ValueError(f"attempt {ctx.attempt} was told to fail")
    output = f"{token} {PADDING}" if behaviour.get("large") else token
    return TaskResult(output, run_next=behaviour.get("choose"))


def _is_refused(ctx: Context, refused: list[int] | bool | None) -> bool:
    """Whether this call must fail: `refused` is True, or has the index of its item."""
    return refused is True or (isinstance(refused, list) and ctx.map_index in refused)
