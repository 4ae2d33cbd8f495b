"""Bounds how many failed logins one address is told one by one.

Counted in the memory of the process: whoever has no token yet must not be able to make the database write.
Only failures count, and only failures are refused: behind a proxy all have one address, and whoever guesses
there must not shut out those who have a token. What keeps a guess from being right is the length of tokens
and codes.
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

    def failed(self, address: str) -> None:
        """Count a failed login.

        Raises:
            TooManyRequests: the address had failed MOST_FAILURES times within WITHIN_S already.
        """
        with self._lock:
            now = self._clock()
            # The newest failures stand last, so that the first address is the one to forget.
            failures = self._failures.pop(address, None) or deque(maxlen=MOST_FAILURES)
            self._failures[address] = failures
            is_refused = len(failures) == MOST_FAILURES and failures[0] > now - WITHIN_S
            if not is_refused:
                failures.append(now)
            if len(self._failures) > MAX_ADDRESSES:
                del self._failures[next(iter(self._failures))]
        if is_refused:
            raise TooManyRequests(
                "too many logins failed from this address",
                hint="wait a minute, then try again; a valid token or code is let in at once",
            )
