"""PostgreSQL's clock, as a process knows it: the one clock by which times are written and compared.

The clocks of hosts differ, by minutes when something is wrong with them; PostgreSQL's is the same for all.
Asking for it in each transaction would cost a round trip. So a process reads it over a connection that it
borrows anyway, every READ_EVERY_S, and counts on from there with a clock of its own that nobody sets. The
clock of the process's host decides nothing (tests/unit/architecture/test_clocks.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

# A clock that is used is read again after so long (s): the clocks of two machines drift apart by less than
# 1 ms meanwhile, and a PostgreSQL that took over on another host is noticed.
READ_EVERY_S = 10.0

# Counts the time during which the machine sleeps, too.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Seconds since some moment in the past, by a clock that is never set."""
    return time.clock_gettime(_BOOT_CLOCK)


class ServerClock:
    """What a process knows of PostgreSQL's clock. Threads may share it, and forked processes inherit it.

    Args:
        steady: a clock that is never set (s).
    """

    def __init__(self, steady: Callable[[], float] = steady) -> None:
        self.steady = steady
        # PostgreSQL's time (s since the epoch) minus the steady clock's, and when it was read.
        self._ahead: float | None = None
        self._read_at = 0.0

    @property
    def is_stale(self) -> bool:
        """Whether PostgreSQL has to be asked before the clock is used."""
        return self._ahead is None or self.steady() - self._read_at > READ_EVERY_S

    @property
    def is_known(self) -> bool:
        """Whether PostgreSQL was ever asked."""
        return self._ahead is not None

    def record(self, said: datetime, asked: float) -> None:
        """Take PostgreSQL's time from its answer to a question.

        Args:
            said: PostgreSQL's time when it answered.
            asked: when it was asked, by the steady clock.
        """
        answered = self.steady()
        # PostgreSQL looked at its clock at some time between question and answer.
        least, most = said.timestamp() - answered, said.timestamp() - asked
        known = (least + most) / 2 if self._ahead is None else self._ahead
        # A slow answer says little: what was known and may be true is kept.
        self._ahead = min(max(known, least), most)
        self._read_at = answered

    def now(self) -> datetime:
        """PostgreSQL's time now.

        Raises:
            RuntimeError: it was never asked.
        """
        if self._ahead is None:
            raise RuntimeError("PostgreSQL was not asked for its time")
        return datetime.fromtimestamp(self.steady() + self._ahead, UTC)
