"""Limits how many wait for storage at a time, so that the others serve those who need none.

The threads of an API process share a limit, and the child processes of a worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from pipeweave.errors import Unavailable

# Who holds a seat for so long (s) is slow, and nobody waits longer for one.
SLOW_S = 0.5
# Between two looks whether a seat is free (s).
LOOK_S = 0.01


class HeldSeats(Protocol):
    """Since when (s, monotonic clock) seats are held, written where all see it who share them."""

    def enter(self, since: float) -> None:
        """Note that the caller wants a seat since then."""

    def leave(self, since: float) -> None:
        """Forget what was noted."""

    def before(self, since: float) -> Sequence[float]:
        """Since when others hold or want a seat who came before."""


class HeldByThreads:
    """The seats that threads of this process hold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: list[float] = []

    def enter(self, since: float) -> None:
        """As `HeldSeats.enter`."""
        with self._lock:
            self._since.append(since)

    def leave(self, since: float) -> None:
        """As `HeldSeats.leave`."""
        with self._lock:
            self._since.remove(since)

    def before(self, since: float) -> Sequence[float]:
        """As `HeldSeats.before`."""
        with self._lock:
            return [each for each in self._since if each < since]


class Seats:
    """How many may wait for storage at a time.

    Who finds no seat free waits for one for a moment, and is refused at once when all are held by who is
    slow. Nobody takes a lock that others wait for: two who come at the same instant may both get the last
    seat.

    Args:
        most: how many there are.
        held: where is written who holds one; by default for the threads of this process.
    """

    def __init__(self, most: int, held: HeldSeats | None = None) -> None:
        self._most = most
        self._held: HeldSeats = held or HeldByThreads()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a seat for the block.

        Raises:
            Unavailable: all are held by who is slow.
        """
        since = self._take()
        try:
            yield
        finally:
            self._held.leave(since)

    def _take(self) -> float:
        until = time.monotonic() + SLOW_S
        while True:
            since = time.monotonic()
            self._held.enter(since)
            others = self._held.before(since)
            if len(others) < self._most:
                return since
            self._held.leave(since)
            if min(until, max(others) + SLOW_S) <= since:
                raise Unavailable(
                    "storage is slow, and enough requests wait for it", hint="try again in a moment"
                )
            time.sleep(LOOK_S)
