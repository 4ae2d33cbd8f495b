"""Sorts the steps of a pipeline into classes that look the same: one task on one level (pure).

The graph's pattern, and the grid of a pipeline's runs, show a class as one thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeweave.orchestrator.domain.states import TaskStatus

Neighbours = list[list[int]]
# Up to so many steps, each is shown unless somebody asks for the classes.
SHOWN_SINGLY = 150
# What one looks for first among the members of a class.
WORST_FIRST = (
    *(TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.QUEUED),
    *(TaskStatus.READY, TaskStatus.PENDING, TaskStatus.CANCELLED, TaskStatus.SKIPPED, TaskStatus.COMPLETED),
)


def classes_of(kinds: Sequence[str], links: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """The steps of each class, as numbers from 0 on, by its key; classes in the order of their first steps.

    Args:
        kinds: what each step runs: only steps of the same kind may be of one class.
        links: the numbers of a predecessor and of its successor.
    """
    levels = levels_of(len(kinds), links)
    classes: dict[str, list[int]] = {}
    for at, kind in enumerate(kinds):
        classes.setdefault(f"{levels[at]}/{kind}", []).append(at)
    return classes


def worst(statuses: Iterable[str]) -> str:
    """The status that a class shows for all its members."""
    member_statuses = set(statuses)
    return next(each.value for each in WORST_FIRST if each in member_statuses)


def levels_of(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """The level of each element: the longest path to it; those without predecessors stand right before their
    first successor.
    """
    before, after = neighbours(count, links)
    waiting = [len(each) for each in before]
    free = [each for each in range(count) if not waiting[each]]
    levels = [0] * count
    for element in free:  # the loop appends to the list that it walks
        for each in after[element]:
            levels[each] = max(levels[each], levels[element] + 1)
            waiting[each] -= 1
            if not waiting[each]:
                free.append(each)
    for element in range(count):
        if not before[element] and after[element]:
            levels[element] = min(levels[each] for each in after[element]) - 1
    return levels


def neighbours(count: int, links: Sequence[tuple[int, int]]) -> tuple[Neighbours, Neighbours]:
    """The predecessors and the successors of each element."""
    before: Neighbours = [[] for _ in range(count)]
    after: Neighbours = [[] for _ in range(count)]
    for source, target in links:
        before[target].append(source)
        after[source].append(target)
    return before, after
