"""Writes a line about what a worker did to its log each minute: how much, how long, how often in vain."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipeweave.workers.consumer.child_slots import ChildTally

log = logging.getLogger(__name__)

EVERY_S = 60.0


class MinuteLine:
    """The line of one worker.

    Args:
        worker_id: the id of the registered worker.
        tally: what its children have done since it started.
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(
        self, worker_id: str, tally: Callable[[], ChildTally], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker_id = worker_id
        self._tally = tally
        self._clock = clock
        self._began = self._last_at = clock()
        self._last = ChildTally()

    def write_if_due(self) -> None:
        """Write the line if the last one is a minute old."""
        now = self._clock()
        if now - self._last_at < EVERY_S:
            return
        tally = self._tally()
        log.info("worker.metrics", extra=self._members(tally, now))
        self._last, self._last_at = tally, now

    def _members(self, tally: ChildTally, now: float) -> dict[str, object]:
        lately = tally - self._last
        return {
            "worker": self._worker_id,
            "uptime_s": round(now - self._began),
            "runs": tally.calls,
            "failed": tally.failed,
            "runs_per_minute": round(60 * lately.calls / (now - self._last_at), 1),
            "mean_duration_ms": round(1000 * lately.seconds / lately.calls, 1) if lately.calls else None,
            "error_rate": round(lately.failed / lately.calls, 4) if lately.calls else None,
        }
