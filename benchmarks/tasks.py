"""Define the tasks that PipeWeave's worker runs in the benchmarks; they do nothing."""

from __future__ import annotations

import time

from pipeweave import task

WORK_S = 0.01


@task
def noop() -> None:
    """Do nothing."""


@task
def work() -> None:
    """Take WORK_S without using the processor, as most steps do."""
    time.sleep(WORK_S)


@task
def numbers(count: int) -> list[int]:
    """The list a map goes over."""
    return list(range(count))


@task
def same(number: int) -> int:
    """Return the item."""
    return number


@task
def collect(rows: list[int]) -> int:
    """Take every item's output and return their number."""
    return len(rows)
