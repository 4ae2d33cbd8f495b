"""A circuit breaker: after a failure of somebody else's server, callers fail at once for a few seconds.

The broker has one (orchestrator/messaging/redis_pipeline.py), and each storage backend (storage/gate.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

# After a failure nobody calls the server for this long (s). Short, because it may be back.
PAUSE_S = 3.0
# The pause (s) after a failure that took no time: another try costs nothing.
SHORT_PAUSE_S = 0.5


class CircuitBreaker:
    """Remembers that a server failed, so that a process waits for one timeout and not one per request.

    After a failure no caller may try for `pause_s`; then one caller tries, and its success or failure decides
    for all. It takes no lock: a race costs one extra try, but a lock held during a fork would hang the child.

    Args:
        pause_s: how long no caller may try after a failure (s).
        clock: a monotonic clock (s).
        what: the server, in the names of the log's lines: `broker.away`.
        names: further members of these lines.
    """

    def __init__(
        self,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
        *,
        what: str = "broker",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._what = what
        self._names = dict(names or {})
        self._pause_s = pause_s
        self._clock = clock
        self._next_try: float | None = None
        self._skipped = 0

    @property
    def is_resting(self) -> bool:
        """Whether nobody may try now; asking changes nothing."""
        next_try = self._next_try
        return next_try is not None and self._clock() < next_try

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

    def skip(self) -> None:
        """Count a caller that was refused without asking whether it may try."""
        self._skipped += 1

    def failed(self, reason: str, *, at_once: bool = False) -> None:
        """Record that the server could not be used; logged once until it is back.

        Args:
            at_once: the caller did not have to wait for the failure, so that the pause is short.
        """
        was_there = self._next_try is None
        self._next_try = self._clock() + (min(SHORT_PAUSE_S, self._pause_s) if at_once else self._pause_s)
        if was_there:
            self._skipped = 0
            log.warning(f"{self._what}.away", extra={**self._names, "reason": reason})

    def succeeded(self) -> None:
        """Record that the server answered."""
        if self._next_try is not None:
            self._next_try = None
            log.warning(f"{self._what}.back", extra={**self._names, "skipped": self._skipped})
