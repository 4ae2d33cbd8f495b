"""Computes how many starts a rate limit allows now (pure), by the generic cell rate algorithm.

The algorithm needs one column and no log. A rate of n in T seconds has a spacing of T/n. `on_time` is when
the next start would be exactly on time; each start moves it by one spacing, and it may lie up to T ahead of
the clock. So after a quiet T, n may start at once, and then one each spacing: in any window of W seconds
never more than n + W·n/T start, and over any long time n in T. (A rate that never sees more than n in any T
would have to give up the burst.)

All arithmetic is in whole microseconds, rounded to the later side, so rounding never allows more starts.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pipeweave.rates import Rate

_MICROSECOND = timedelta(microseconds=1)


def on_time(rate: Rate, at: datetime | None, now: datetime, unstarted: int) -> datetime:
    """When the next start would be exactly on time.

    Args:
        at: as it was stored; None before the first start.
        unstarted: task runs that are queued and that no worker has claimed. While they wait, no more starts
            accumulate, or a worker that comes back would start twice as many at once.
    """
    earliest = after(rate, now, unstarted)
    return earliest if at is None else max(at, earliest)


def room(rate: Rate, on_time: datetime, now: datetime) -> int:
    """How many task runs may start now."""
    ahead = (on_time - now) // _MICROSECOND
    return max(0, (_window(rate) - ahead) * rate.limit // _window(rate))


def after(rate: Rate, on_time: datetime, starts: int) -> datetime:
    """When the next start would be on time after this many further starts."""
    return on_time + -(-starts * _window(rate) // rate.limit) * _MICROSECOND


def when(rate: Rate, on_time: datetime, position: int) -> datetime:
    """When the task run at this position of the queue may start; the first one has position 1."""
    return after(rate, on_time, position) - timedelta(seconds=rate.seconds)


def _window(rate: Rate) -> int:
    return round(rate.seconds * 1_000_000)
