"""Measures how long calls take in this process, so that many short calls share a turn and long calls share
none.
"""

from __future__ import annotations

from dataclasses import dataclass

# Weight of the newest call in the moving average.
_NEWEST = 0.2
# As many as a message brings of short calls (messaging/batching.MAX_SHORT_CHUNK): they are one turn.
MAX_CALLS = 200
# The average is stored when it is this many times the stored one, or less than that part of it.
_CHANGED_BY = 1.5
# A shorter average (s) is stored as this: the difference does not matter.
_SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True)
class UsualDuration:
    """How long (s) the task runs of a task usually take."""

    tenant: str
    task_id: str
    seconds: float


class CallDurations:
    """A moving average of the durations of calls of one task, in seconds."""

    def __init__(self) -> None:
        self._of = ("", "")
        self._seconds: float | None = None
        self._stored: dict[tuple[str, str], float] = {}

    def record(self, tenant: str, task_id: str, seconds: float) -> None:
        """Add the duration of a call. The average starts anew with another task."""
        if (tenant, task_id) != self._of or self._seconds is None:
            self._of, self._seconds = (tenant, task_id), seconds
        else:
            self._seconds += _NEWEST * (seconds - self._seconds)

    def fitting(self, seconds: float) -> int:
        """How many calls are likely to fit in this many seconds, from 1 (also while nothing is known) to
        MAX_CALLS.
        """
        if self._seconds is None:
            return 1
        return max(1, min(MAX_CALLS, int(seconds / max(self._seconds, 1e-6))))

    def changed(self) -> UsualDuration | None:
        """The average, if it is far from the one that was stored last. Called by the watchdog's thread, which
        calls `stored` when it has stored the average.
        """
        of, seconds = self._of, self._seconds
        if seconds is None:
            return None
        seconds = max(seconds, _SHORTEST_S)
        stored = self._stored.get(of)
        if stored is not None and stored / _CHANGED_BY <= seconds <= stored * _CHANGED_BY:
            return None
        return UsualDuration(*of, seconds)

    def stored(self, usual: UsualDuration) -> None:
        """Note that an average is stored. One whose write failed is given again by `changed`."""
        self._stored[usual.tenant, usual.task_id] = usual.seconds
