"""The sentence about maintenance above every page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pipeweave.api.ui import words
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.queueing import RUNNING

# Every page asks, so it is read at most once in this time (s).
KEPT_S = 2.0
_DETAILS = "maintenance.get_maintenance"


class Banner:
    """Knows whether maintenance is asked for, or has begun.

    Args:
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Whether the reader may see all tenants -> when it was read, and what it is for such readers.
        self._known: dict[bool, tuple[float, str]] = {}

    def text(self, view: View) -> str:
        """The sentence; empty while new work is accepted.

        Who may see all tenants reads how many runs are open, about how long they take, and the reason.
        """
        sees_all = view.inside.may(view.caller, _DETAILS)
        with self._lock:
            read_at, text = self._known.get(sees_all, (float("-inf"), ""))
            if self._clock() - read_at >= KEPT_S:
                text = _sentence(view, sees_all)
                self._known[sees_all] = (self._clock(), text)
            return text


def _sentence(view: View, sees_all: bool) -> str:
    health, _ = view.inside.ask(view.caller, "system.health")
    maintenance = health.get("maintenance")
    if maintenance is None or maintenance["mode"] == RUNNING:
        return ""
    if sees_all:
        maintenance, _ = view.inside.ask(view.caller, _DETAILS)
    left, reason = maintenance.get("emptyInMs"), maintenance.get("reason")
    parts = [
        f"Maintenance: {maintenance['message']}",
        f"«{reason}»" if reason else "",
        f"≈ {words.duration(left)} left" if left else "",
    ]
    return " ".join(part for part in parts if part)
