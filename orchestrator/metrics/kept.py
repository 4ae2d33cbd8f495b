"""Keeps the metrics of a deployment for some seconds, so that however many ask, PostgreSQL is asked once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeweave.orchestrator.metrics.samples import Samples

# What was read is kept for so long (s), or for so many times as long as the reading took: reading metrics
# never takes more than a twentieth of one connection.
KEPT_S = 5.0
KEPT_PER_COST = 20
# While one caller reads anew, the others get what is kept, unless it is older than this (s).
LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """What was read.

    Args:
        samples: the metrics.
        number: which reading it was, in this process.
        at: when it began (s, the clock of `KeptMetrics`).
        until: until when it is kept.
    """

    samples: Samples
    number: int
    at: float
    until: float


class KeptMetrics:
    """The metrics that were read last. Threads share it.

    Args:
        read: reads the metrics.
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, read: Callable[[], Samples], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Read | None = None

    def get(self) -> Read:
        """The metrics as they are, or were a few seconds ago."""
        last = self._last
        if last is not None and self._clock() < last.until:
            return last
        is_usable = last is not None and self._clock() < last.at + LONGEST_S
        if not self._lock.acquire(blocking=not is_usable):
            assert last is not None
            return last
        try:
            # Another caller may have read while this one waited.
            if self._last is not None and self._clock() < self._last.until:
                return self._last
            self._last = self._anew()
            return self._last
        finally:
            self._lock.release()

    def _anew(self) -> Read:
        began = self._clock()
        samples = self._read()
        now = self._clock()
        number = 1 if self._last is None else self._last.number + 1
        return Read(samples, number, began, now + max(KEPT_S, KEPT_PER_COST * (now - began)))
