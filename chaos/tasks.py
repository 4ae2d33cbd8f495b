"""Define the tasks of the fault test; the run's input says how each step behaves."""

from __future__ import annotations

import time
from typing import Any

from chaos.notes import VARIABLE, Notebook
from pipeweave import Context, Retry, TaskError, TaskResult, task
from pipeweave.settings import environment

_notebook = Notebook(environment()[VARIABLE])

# Faults use up attempts. A step that is to succeed has so many that no plan of faults uses them all.
PLENTY = Retry(attempts=40, delay_ms=100, max_delay_ms=800, jitter=0.5)
# A step whose attempts are to run out has few.
FEW = Retry(attempts=3, delay_ms=100, max_delay_ms=400)

# An attempt that is to exceed its time limit (s) would go on for this long (s).
LIMIT_S = 1.0
FAR_TOO_LONG_S = 60.0


@task(retry=PLENTY)
def work(ctx: Context) -> Any:
    """Behave as the input says."""
    return _act(ctx)


@task(retry=PLENTY, concurrency=2)
def limited(ctx: Context) -> Any:
    """As `work`, at most two at a time."""
    return _act(ctx)


@task(retry=PLENTY, concurrency=1)
def single(ctx: Context) -> Any:
    """As `work`, one at a time."""
    return _act(ctx)


@task(retry=PLENTY, heartbeat_interval_ms=1_000)
def slow(ctx: Context) -> Any:
    """As `work`, with a heartbeat every half second, for steps that take seconds."""
    return _act(ctx)


@task(retry=FEW)
def hopeless(ctx: Context) -> Any:
    """Fail until no attempt is left."""
    with _notebook.noted(ctx, {}):
        raise ValueError("this never works")


@task(retry=FEW, timeout=LIMIT_S)
def endless(ctx: Context) -> Any:
    """Exceed the time limit until no attempt is left."""
    with _notebook.noted(ctx, {}):
        time.sleep(FAR_TOO_LONG_S)


@task(retry=Retry(attempts=1), timeout=LIMIT_S)
def stubborn(ctx: Context) -> Any:
    """Ignore the time limit, so that only the end of the process ends it."""
    until = time.monotonic() + FAR_TOO_LONG_S
    with _notebook.noted(ctx, {}):
        while time.monotonic() < until:
            try:
                time.sleep(1)
            except Exception:
                continue


@task(retry=PLENTY, timeout=LIMIT_S)
def late(ctx: Context) -> Any:
    """Exceed the time limit once."""
    with _notebook.noted(ctx, {}) as token:
        if ctx.attempt == 1:
            time.sleep(FAR_TOO_LONG_S)
        return token


def _act(ctx: Context) -> Any:
    behaviour: dict[str, Any] = ctx.input["steps"].get(ctx.step_id, {})
    saw: dict[str, Any] = {}
    with _notebook.noted(ctx, saw) as token:
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
