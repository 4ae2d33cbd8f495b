"""How often what is watched is computed and fetched: the more that costs, the less often. So a bounded share
of the machine goes there, whatever is watched and whoever watches, and a smaller one while the machine is
busy, because everything then takes longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

# All views together take this share of one thread's time as long as none has to wait longer than MOST_S for
# it, and never more than the second one. A single view takes at most the third.
SHARE = 0.03
MOST_SHARE = 0.10
VIEW_SHARE = 0.05
# A view is computed on average at most once in the first time (s), and at least once in the second if it
# changes and if the shares allow.
LEAST_S = 0.4
MOST_S = 5.0
# A single view rests no longer than this for its own cost (s).
MOST_OWN_S = 20.0
# The cost of a view is the smaller one of the last two: one of them may have waited for a database that was
# away, and a page that rested twenty times as long would look stuck long after. The first one counts so much
# at most (s).
FIRST_MOST_S = 0.25
# What was computed longer ago than this does not count any more.
REMEMBERED_S = 4 * MOST_S


class ViewPace:
    """How long views may rest, from what computing each has cost. Thread safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # View -> what it took, its cost, and when that was (s).
        self._costs: dict[Hashable, tuple[float, float, float]] = {}

    def record(self, view: Hashable, took_s: float) -> None:
        """Note what computing a view took just now."""
        now = self._clock()
        with self._lock:
            before, *_ = self._costs.get(view, (FIRST_MOST_S,))
            self._costs[view] = (took_s, min(before, took_s), now)
            old = [each for each, (*_, at) in self._costs.items() if now - at > REMEMBERED_S]
            for each in old:
                del self._costs[each]

    def rest_s(self, view: Hashable) -> float:
        """Seconds from the beginning of one computing of this view to that of the next, on average."""
        with self._lock:
            _, own, _ = self._costs.get(view, (0.0, 0.0, 0.0))
            total = sum(cost for _, cost, _ in self._costs.values())
        return max(LEAST_S, min(MOST_OWN_S, own / VIEW_SHARE), min(MOST_S, total / SHARE), total / MOST_SHARE)


class Allowance:
    """Lets so many of something through each second, evenly.

    Args:
        per_s: how many.
        burst: how many at once after a silence.
    """

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._clock = per_s, max(1.0, burst), clock
        self._left = self._burst
        self._at = clock()

    def take(self, wanted: int) -> int:
        """How many of these may pass now."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        taken = min(wanted, int(self._left))
        self._left -= taken
        return taken
