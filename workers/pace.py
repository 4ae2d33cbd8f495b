"""How long this process's calls take, so that many quick ones share a transaction and slow ones do not
wait.
"""

from __future__ import annotations

# Weight of the newest call in the moving average.
_NEWEST = 0.2
MAX_CALLS = 100


class Pace:
    """A moving average of call durations in seconds; 1 call at a time until one was seen."""

    def __init__(self) -> None:
        self._task_id = ""
        self._seconds: float | None = None

    def note(self, task_id: str, seconds: float) -> None:
        """A call of this task took this long. Another task's pace says nothing about it."""
        if task_id != self._task_id or self._seconds is None:
            self._task_id, self._seconds = task_id, seconds
        else:
            self._seconds += _NEWEST * (seconds - self._seconds)

    def fitting(self, seconds: float) -> int:
        """How many calls are likely to fit in this many seconds: at least 1, at most MAX_CALLS."""
        if self._seconds is None:
            return 1
        return max(1, min(MAX_CALLS, int(seconds / max(self._seconds, 1e-6))))
