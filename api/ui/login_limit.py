"""Bounds how often one address may try to log in.

Counted in the memory of the process: whoever has no token yet must not be able to make the database write.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from pipeweave.errors import TooManyRequests

MOST_FAILURES = 10
WITHIN_S = 60.0
# Of more addresses than this, those that have failed least recently are forgotten.
MAX_ADDRESSES = 10_000


class LoginLimit:
    """Counts failed logins by address.

    Args:
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def check(self, address: str) -> None:
        """Refuse an address that failed MOST_FAILURES times within WITHIN_S.

        Raises:
            TooManyRequests: it did.
        """
        with self._lock:
            failures = self._failures.get(address)
            if failures is None or len(failures) < MOST_FAILURES:
                return
            is_over = failures[0] <= self._clock() - WITHIN_S
        if not is_over:
            raise TooManyRequests(
                "too many logins failed from this address", hint="wait a minute, then try again"
            )

    def failed(self, address: str) -> None:
        """Count a failed login."""
        with self._lock:
            # The newest failures stand last, so that the first address is the one to forget.
            failures = self._failures.pop(address, None) or deque(maxlen=MOST_FAILURES)
            failures.append(self._clock())
            self._failures[address] = failures
            if len(self._failures) > MAX_ADDRESSES:
                del self._failures[next(iter(self._failures))]
