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
    """Moving averages of the durations of calls, one for each task, in seconds."""

    def __init__(self) -> None:
        # The task of the last call.
        self._of = ("", "")
        self._averages: dict[tuple[str, str], float] = {}
        self._stored: dict[tuple[str, str], float] = {}

    def record(self, tenant: str, task_id: str, seconds: float) -> None:
        """Add the duration of a call."""
        of = (tenant, task_id)
        before = self._averages.get(of, seconds)
        self._averages[of] = before + _NEWEST * (seconds - before)
        self._of = of

    def usual(self, tenant: str, task_id: str) -> float | None:
        """How long a call of a task takes here, on average (s); None while it is not known."""
        return self._averages.get((tenant, task_id))

    def fitting(self, seconds: float) -> int:
        """How many calls like the last one are likely to fit in this many seconds, from 1 (also while nothing
        is known) to MAX_CALLS.
        """
        average = self._averages.get(self._of)
        if average is None:
            return 1
        return max(1, min(MAX_CALLS, int(seconds / max(average, 1e-6))))

    def changed(self) -> UsualDuration | None:
        """The average of the last task, if it is far from the one that was stored last. Called by the
        watchdog's thread, which calls `stored` when it has stored the average.
        """
        of = self._of
        seconds = self._averages.get(of)
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
