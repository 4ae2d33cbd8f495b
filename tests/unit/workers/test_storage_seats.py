"""At most half of the children of a worker wait for storage at a time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from pipeweave.errors import Unavailable
from pipeweave.storage import Seats
from pipeweave.workers.consumer.child_slots import Slot, Slots
from pipeweave.workers.consumer.storage_seats import seats_of_child


def children(concurrency: int) -> tuple[Slots, list[Slot]]:
    """A worker's memory, and the slots of its children."""
    slots = Slots(concurrency)
    taken = [slots.take(place, 4_000 + place) for place in range(concurrency)]
    return slots, [each for each in taken if each is not None]


def seats(slots: Slots, found: list[Slot]) -> list[Seats]:
    return [seats_of_child(slots, each) for each in found]


def may_wait(seats_of: Seats) -> bool:
    try:
        with seats_of.one():
            return True
    except Unavailable:
        return False


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_half_of_the_children_wait_and_the_next_one_is_refused(concurrency: int, most: int) -> None:
    found = seats(*children(concurrency))
    with ExitStack() as waiting:
        for each in found[:most]:
            waiting.enter_context(each.one())
        assert [may_wait(each) for each in found[most:]] == [False] * (concurrency - most)
    assert all(may_wait(each) for each in found)


def test_a_child_holds_one_seat_however_many_of_its_threads_wait() -> None:
    first, second, third, _ = seats(*children(4))
    with first.one(), first.one(), first.one():
        with second.one():
            assert not may_wait(third)
            with first.one():
                pass
            assert not may_wait(third)
        assert may_wait(third)


def test_a_killed_child_holds_its_seat_until_its_parent_has_read_its_slot() -> None:
    slots, found = children(2)
    killed, other = seats(slots, found)
    held = killed.one()
    held.__enter__()
    assert not may_wait(other)
    found[0].free()
    assert may_wait(other)
    successor = slots.take(0, 4_711)
    assert successor is not None and successor.in_storage_since == 0.0
