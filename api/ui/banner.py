"""The sentence about maintenance above every page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pipeweave.api.ui.view import View
from pipeweave.orchestrator.queueing import RUNNING

# Every page asks, so it is read at most once in this time (s).
KEPT_S = 2.0


class Banner:
    """Knows whether maintenance is asked for, or has begun.

    Args:
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, str] = (float("-inf"), "")

    def text(self, view: View) -> str:
        """The sentence; empty while new work is accepted."""
        with self._lock:
            read_at, text = self._known
            if self._clock() - read_at >= KEPT_S:
                text = _sentence(view.inside.ask(view.caller, "system.health")[0])
                self._known = (self._clock(), text)
            return text


def _sentence(health: dict[str, Any]) -> str:
    maintenance = health.get("maintenance")
    if maintenance is None or maintenance["mode"] == RUNNING:
        return ""
    return f"Maintenance: {maintenance['message']}"
