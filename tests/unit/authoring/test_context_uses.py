"""Whether a task may read the run's input through its Context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeweave import Context
from pipeweave.authoring.context_uses import may_read_input


def logs(ctx: Context, word: str) -> int:
    ctx.log.info("measuring %r at %s", word, ctx.attempt)
    ctx.progress(50)
    return len(ctx.tenant) + ctx.attempt


def ignores(ctx: Context) -> None: ...


def reads(ctx: Context) -> Any:
    return ctx.input["x"]


def reads_params(ctx: Context) -> Any:
    return ctx.log, ctx.params


def hands_on(ctx: Context) -> Any:
    return logs(ctx, "x")


def captures(ctx: Context) -> Any:
    return lambda: ctx.log


def renames(ctx: Context) -> Any:
    other = ctx
    return other.input


def compares(word: str, ctx: Context) -> Any:
    return word, ctx


@pytest.mark.parametrize("fn", [logs, ignores])
def test_a_task_that_uses_other_attributes_alone_does_not(fn: Callable[..., Any]) -> None:
    assert not may_read_input(fn, "ctx")


@pytest.mark.parametrize("fn", [reads, reads_params, hands_on, captures, renames, compares, len])
def test_any_other_task_may(fn: Callable[..., Any]) -> None:
    assert may_read_input(fn, "ctx")
