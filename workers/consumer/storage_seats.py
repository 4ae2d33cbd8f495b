"""Lets at most half of a worker's children wait for storage at a time: the others run what needs none."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pipeweave.storage import Seats
from pipeweave.workers.consumer.child_slots import Slot, Slots


class HeldByChildren:
    """The seats that children of a worker hold, in the memory that they share.

    A child needs one seat, however many of its threads wait. The seat of a killed child is free as soon as
    its parent has read its slot.

    Args:
        slot: of this child.
    """

    def __init__(self, slots: Slots, slot: Slot) -> None:
        self._slots = slots
        self._slot = slot
        self._lock = threading.Lock()
        self._since: list[float] = []

    def enter(self, since: float) -> None:
        """Note that a thread of this child wants a seat since then (s, monotonic clock)."""
        with self._lock:
            self._since.append(since)
            self._write()

    def leave(self, since: float) -> None:
        """Forget what was noted."""
        with self._lock:
            self._since.remove(since)
            self._write()

    def before(self, since: float) -> Sequence[float]:
        """Since when other children wait that came before this one."""
        mine = min(self._since, default=since)
        others = (each.in_storage_since for each in self._slots.taken() if each.pid != self._slot.pid)
        return [each for each in others if 0 < each < mine]

    def _write(self) -> None:
        self._slot.wait_for_storage(min(self._since, default=0.0))


def seats_of_child(slots: Slots, slot: Slot) -> Seats:
    """The seats of a worker, as one of its children sees them."""
    return Seats(max(1, slots.places // 2), HeldByChildren(slots, slot))
