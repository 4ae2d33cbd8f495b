"""The tick, every POLL_INTERVAL_MS on a steady grid."""

from __future__ import annotations

import threading
import time

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.recovery import tick
from pipeweave.workers.loops.loop import Turn


def turns(deployment: Deployment) -> Turn:
    """Ticks; each returns the seconds until the next point of the grid."""
    interval, next_at = deployment.settings.poll_interval_ms / 1000, time.monotonic()

    def turn(_: threading.Event) -> float:
        nonlocal next_at
        # The ticks that a slow tick delayed are left out.
        missed = (time.monotonic() - next_at) // interval + 1
        next_at += missed * interval
        tick.run_once(deployment)
        return max(0.0, next_at - time.monotonic())

    return turn
