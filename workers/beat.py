"""Runs the tick in the process of beat, on a steady grid, and writes no file (docs/celery.md)."""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar

from celery.beat import Scheduler

from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import tick
from pipeweave.workers.process.health_reports import LastStored

log = logging.getLogger(__name__)


class TickScheduler(Scheduler):
    """Celery's scheduler with our tick in its loop."""

    deployment: ClassVar[Deployment]
    ticked: ClassVar[LastStored] = LastStored()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._next_tick = time.monotonic()
        self._failures = FailureLog(log, "tick.failed")

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Run the tick if it is due; returns the seconds to sleep."""
        delay = super().tick(*args, **kwargs)
        if time.monotonic() >= self._next_tick:
            self._run_tick()
        return float(max(0.0, min(delay, self._next_tick - time.monotonic())))

    def _run_tick(self) -> None:
        interval = self.deployment.settings.poll_interval_ms / 1000
        # The next grid point after now: the ticks that a slow tick delayed are left out.
        missed = (time.monotonic() - self._next_tick) // interval + 1
        self._next_tick += missed * interval
        try:
            tick.run_once(self.deployment)
        except Exception as error:
            self._failures.failed(error)
        else:
            self._failures.worked()
            self.ticked.note()
