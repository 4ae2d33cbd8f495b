"""A circuit breaker: after a failure of the broker, callers fail at once for a few seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

# After a failure nobody calls the broker for this long (s). Short, because the tick sends what was skipped.
PAUSE_S = 3.0
# The pause (s) after a failure that took no time: another try costs nothing, and the broker may be back.
SHORT_PAUSE_S = 0.5


class CircuitBreaker:
    """Remembers that the broker failed, so that a process waits for one timeout and not one per message.

    After a failure no caller may try for `pause_s`; then one caller tries, and its success or failure decides
    for all. It takes no lock: a race costs one extra try, but a lock held during a fork would hang the child.

    Args:
        pause_s: how long no caller may try after a failure (s).
        clock: a monotonic clock (s).
    """

    def __init__(self, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._next_try: float | None = None
        self._skipped = 0

    def may_try(self) -> bool:
        """Whether this caller may try now."""
        # Read once: another thread may reset it meanwhile.
        next_try = self._next_try
        if next_try is None:
            return True
        now = self._clock()
        if now < next_try:
            self._skipped += 1
            return False
        # Other callers wait for another pause, while this one tries.
        self._next_try = now + self._pause_s
        return True

    def failed(self, reason: str, *, at_once: bool = False) -> None:
        """Record that the broker could not be used; logged once until the broker is back.

        Args:
            at_once: the caller did not have to wait for the failure, so that the pause is short.
        """
        was_there = self._next_try is None
        self._next_try = self._clock() + (min(SHORT_PAUSE_S, self._pause_s) if at_once else self._pause_s)
        if was_there:
            self._skipped = 0
            log.warning("broker.away", extra={"reason": reason})

    def succeeded(self) -> None:
        """Record that the broker answered."""
        if self._next_try is not None:
            self._next_try = None
            log.warning("broker.back", extra={"skipped": self._skipped})
