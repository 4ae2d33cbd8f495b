"""When a child asks its parent to be replaced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from billiard.queues import _SimpleQueue

from pipeweave.workers.process.pool import WISHES_TO_LEAVE, Child


@pytest.fixture
def told() -> Iterator[_SimpleQueue]:
    """The pipe through which a child tells its parent."""
    queue = _SimpleQueue()
    yield queue
    queue._reader.close()
    queue._writer.close()


def child(told: _SimpleQueue, *, most: int | None = None, most_kib: int | None = None) -> Child:
    return Child(told, told, None, maxtasks=most, max_memory_per_child=most_kib)


def heard(told: _SimpleQueue) -> list[int]:
    """What the parent was told so far."""
    seen = []
    while told._reader.poll(0):
        seen.append(told.get()[0])
    return seen


def test_a_child_asks_once_to_leave_after_so_many_messages(told: _SimpleQueue) -> None:
    asking = child(told, most=3)
    assert [asking.prepare_result(number) for number in (1, 2)] == [1, 2]
    assert heard(told) == []
    for number in (3, 4, 5):
        asking.prepare_result(number)
    assert heard(told) == [WISHES_TO_LEAVE]


def test_a_child_that_takes_too_much_memory_asks_to_leave(told: _SimpleQueue) -> None:
    modest, greedy = child(told, most_kib=1 << 40), child(told, most_kib=1)
    modest.prepare_result(None)
    assert heard(told) == []
    greedy.prepare_result(None)
    assert heard(told) == [WISHES_TO_LEAVE]


def test_a_child_never_leaves_by_itself(told: _SimpleQueue) -> None:
    asking = child(told, most=1, most_kib=1)
    assert (asking.maxtasks, asking.max_memory_per_child) == (None, None)
