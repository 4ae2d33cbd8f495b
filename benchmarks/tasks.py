"""What PipeWeave's worker runs in the benchmarks: tasks that do nothing."""

from __future__ import annotations

from pipeweave import task


@task
def noop() -> None:
    """Do nothing."""


@task
def numbers(count: int) -> list[int]:
    """The list a map goes over."""
    return list(range(count))


@task
def same(number: int) -> int:
    """Give an item back."""
    return number


@task
def collect(rows: list[int]) -> int:
    """Take every item's output; say how many there were."""
    return len(rows)
