"""Logs the failures of work that is tried again each second: once, not each second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipeweave.errors import PipeWeaveError

# The same failure is logged again after this long (s).
AGAIN_AFTER_S = 60.0


class FailureLog:
    """Remembers the last failure.

    Args:
        log: where it logs.
        event: the message, such as `tick.failed`.
        clock: a monotonic clock (s).
    """

    def __init__(self, log: logging.Logger, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._event = event
        self._clock = clock
        self._last = ""
        self._next = 0.0
        self._silent = 0

    def failed(self, error: Exception) -> bool:
        """Log a failure, unless it was logged a moment ago. One that is not expected has its traceback.

        Returns:
            Whether it was logged.
        """
        reason = error.detail if isinstance(error, PipeWeaveError) else repr(error)
        if reason == self._last and self._clock() < self._next:
            self._silent += 1
            return False
        extra = {"reason": reason, "repeated": self._silent}
        if isinstance(error, PipeWeaveError):
            hint = {} if error.hint is None else {"hint": error.hint}
            self._log.warning(self._event, extra={**extra, **hint})
        else:
            self._log.error(self._event, extra=extra, exc_info=error)
        self._last, self._next, self._silent = reason, self._clock() + AGAIN_AFTER_S, 0
        return True

    def worked(self) -> None:
        """Forget the last failure, and say that it is over."""
        if self._last:
            self._log.warning(f"{self._event}.over", extra={"repeated": self._silent})
            self._last, self._silent = "", 0
