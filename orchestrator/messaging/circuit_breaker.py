"""Not trying, for a while, what has just failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

# How long the broker is left alone after a failure (s). Short, because the tick sends what was skipped.
PAUSE_S = 3.0


class Breaker:
    """Remembers that the broker is away, so that it costs a process one timeout and not one per message.

    After a failure it admits nobody for a pause, then one caller, whose success or failure decides for all.
    It holds no lock: a race costs one try more, a lock held across a fork would cost the child.

    Args:
        pause_s: how long nobody is admitted after a failure (s).
        clock: a monotonic clock (s).
    """

    def __init__(self, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._next_try: float | None = None
        self._skipped = 0

    def admits(self) -> bool:
        """Whether to try now."""
        # Read once: another thread may forget it meanwhile.
        next_try = self._next_try
        if next_try is None:
            return True
        now = self._clock()
        if now < next_try:
            self._skipped += 1
            return False
        # Others wait for what this caller finds out.
        self._next_try = now + self._pause_s
        return True

    def failed(self, reason: str) -> None:
        """The broker could not be used; said once until it is back."""
        was_there = self._next_try is None
        self._next_try = self._clock() + self._pause_s
        if was_there:
            self._skipped = 0
            log.warning("broker.away", extra={"reason": reason})

    def succeeded(self) -> None:
        """The broker answered."""
        if self._next_try is not None:
            self._next_try = None
            log.warning("broker.back", extra={"skipped": self._skipped})
