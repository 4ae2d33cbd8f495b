"""How long this process's calls take, so that many quick ones share a transaction and slow ones do not
wait.
"""

from __future__ import annotations

from dataclasses import dataclass

# Weight of the newest call in the moving average.
_NEWEST = 0.2
MAX_CALLS = 100
# The average is told to others when it is this many times what they know, or that part of it.
_NEWS = 1.5
# What takes less (s) is told as this: it makes no difference.
_SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True)
class Usual:
    """How long (s) the task runs of a task usually take."""

    tenant: str
    task_id: str
    seconds: float


class CallDurations:
    """A moving average of call durations in seconds; 1 call at a time until one was seen."""

    def __init__(self) -> None:
        self._of = ("", "")
        self._seconds: float | None = None
        self._told: dict[tuple[str, str], float] = {}

    def note(self, tenant: str, task_id: str, seconds: float) -> None:
        """A call of this task took this long. Another task's pace says nothing about it."""
        if (tenant, task_id) != self._of or self._seconds is None:
            self._of, self._seconds = (tenant, task_id), seconds
        else:
            self._seconds += _NEWEST * (seconds - self._seconds)

    def fitting(self, seconds: float) -> int:
        """How many calls are likely to fit in this many seconds: at least 1, at most MAX_CALLS."""
        if self._seconds is None:
            return 1
        return max(1, min(MAX_CALLS, int(seconds / max(self._seconds, 1e-6))))

    def news(self) -> Usual | None:
        """The average, if it is far from what was told last; asked by another thread."""
        of, seconds = self._of, self._seconds
        if seconds is None:
            return None
        seconds = max(seconds, _SHORTEST_S)
        told = self._told.get(of)
        if told is not None and told / _NEWS <= seconds <= told * _NEWS:
            return None
        self._told[of] = seconds
        return Usual(*of, seconds)
