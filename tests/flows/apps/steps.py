"""Tasks whose behaviour the run's input decides."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from notes import noted

from pipeweave import Context, TaskError, TaskResult, task


@task
def noop(ctx: Context) -> str | None:
    with noted(ctx):
        return ctx.step_id


def _act(ctx: Context) -> TaskResult:
    """Do what the input says of this step: fail, choose successors, or just complete."""
    with noted(ctx):
        wishes: dict[str, Any] = ctx.input or {}
        failing = wishes.get("fail", {}).get(ctx.step_id)
        if failing is not None and (ctx.map_index is None or ctx.map_index in failing):
            raise ValueError(f"{ctx.step_id} was told to fail")
        return TaskResult(ctx.step_id, run_next=wishes.get("choose", {}).get(ctx.step_id))


@task(retries=0)
def act(ctx: Context) -> TaskResult:
    return _act(ctx)


@task(allowed_next=["noop"], retries=0)
def choosing(chosen: list[str]) -> TaskResult:
    return TaskResult("chose", run_next=chosen)


@task(concurrency=2, retries=0)
def act_limited(ctx: Context) -> TaskResult:
    return _act(ctx)


@task
def look(ctx: Context) -> dict[str, Any]:
    """What a step sees of those before it."""
    with noted(ctx):
        return dict(ctx.upstream)


@task
def cause(ctx: Context) -> Any:
    """What began the run."""
    return ctx.triggered_by


# --- values and lists -------------------------------------------------------------------------------------


@task
def give(value: Any) -> Any:
    return value


@task
def spoil(value: Any) -> Any:
    """Changes what it was called with."""
    value.append("spoilt")
    return value


@task
def numbers(count: int) -> list[int]:
    return list(range(count))


@task
def double(item: int, ctx: Context) -> int:
    with noted(ctx, seen=item):
        return item * 2


@task
def weigh(name: str, factor: int, place: int, ctx: Context) -> str:
    with noted(ctx, seen=name):
        return f"{place}: {name * factor}"


@task
def total(rows: list[int], ctx: Context) -> int:
    with noted(ctx):
        return sum(rows)


@task
def measure(text: str) -> int:
    return len(text)


@task
def repeat(text: str, times: int) -> str:
    return text * times


# --- ways to fail -----------------------------------------------------------------------------------------


class Unprintable:
    """What is no JSON."""


@task(retries=0)
def misbehave(behaviour: str, ctx: Context) -> Any:
    with noted(ctx):
        match behaviour:
            case "value-error":
                raise ValueError("the third card is missing")
            case "chained":
                try:
                    raise KeyError("cause")
                except KeyError as error:
                    raise RuntimeError("effect") from error
            case "task-error":
                raise TaskError("declined", code="CARD_DECLINED", retryable=False, details={"card": 4242})
            case "system-exit":
                raise SystemExit(3)
            case "memory-error":
                raise MemoryError
            case "keyboard-interrupt":
                raise KeyboardInterrupt
            case "odd-texts":
                raise ValueError("nul \0 and a lone surrogate \ud800")
            case "not-json":
                return {"rows": [Unprintable()]}
            case "not-a-number":
                return {"share": float("nan")}
            case "nul":
                return "a\0b"
            case "unknown-next":
                return TaskResult(1, run_next=["nowhere"])
            case "next-is-a-text":
                return TaskResult(1, run_next="after")
            case "huge":
                return "x" * 3_000_000
            case _:
                return behaviour


@task(retries=0)
def typed(count: int, names: list[str], ratio: float = 0.5) -> str:
    return f"{count} {names} {ratio}"


@task(retries=0)
def listing(number: int, ctx: Context) -> Any:
    """One item gives what is no JSON, under a key that is no Unicode: a file's name as Python reads it."""
    with noted(ctx):
        return {os.fsdecode(b"caf\xe9.txt"): Unprintable()} if number == 2 else number


# --- tasks that take a while ------------------------------------------------------------------------------


@task(concurrency=2)
def limited(ctx: Context) -> None:
    with noted(ctx):
        time.sleep(0.02)


@task
def nap(item: int, ctx: Context) -> int:
    with noted(ctx):
        time.sleep(0.05)
        return item


@task
def nap_once(ctx: Context) -> None:
    with noted(ctx):
        time.sleep(0.05)


@task(rate_limit="4/s")
def rated(ctx: Context) -> None:
    with noted(ctx):
        pass


def _hold(path: str, ctx: Context) -> str:
    """Wait until the file is there: the test decides when this ends."""
    Path(path + ".held").touch()
    with noted(ctx):
        while not Path(path).exists():
            time.sleep(0.01)
        return "released"


@task
def hold(path: str, ctx: Context) -> str:
    return _hold(path, ctx)


@task
def hold_item(path: str, number: int, ctx: Context) -> str:
    return _hold(path, ctx)


@task(concurrency=2)
def hold_limited(path: str, ctx: Context) -> str:
    return _hold(path, ctx)


@task(concurrency=1)
def hold_single(path: str, ctx: Context) -> str:
    return _hold(path, ctx)


@task(concurrency=1)
def hold_single_first(path: str, ctx: Context) -> str:
    return _hold(path, ctx)
