"""How many of a task may start now (pure): the generic cell rate algorithm, which needs one column, no log.

A rate of n in T seconds has a spacing of T/n. `on_time` is when the next start would be exactly on time; each
start moves it on by one spacing, and it may lie up to T ahead of the clock. So after a quiet T, n may start
at once, and then one each spacing: in any window of W seconds never more than n + W·n/T start, and over any
long time n in T. (A rate that never sees more than n in any T would have to give up the burst.)

All arithmetic is in whole microseconds, rounded to the later side: what is rounded never lets more go.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pipeweave.rates import Rate

_MICROSECOND = timedelta(microseconds=1)


def on_time(rate: Rate, at: datetime | None, now: datetime, unstarted: int) -> datetime:
    """When the next start would be exactly on time.

    Args:
        at: as it was stored; None before the first start.
        unstarted: those that were let go and still wait for a worker. While they wait, nothing is saved up
            behind them, or a worker that comes back would start twice as many at once.
    """
    earliest = after(rate, now, unstarted)
    return earliest if at is None else max(at, earliest)


def room(rate: Rate, on_time: datetime, now: datetime) -> int:
    """How many may start now."""
    ahead = (on_time - now) // _MICROSECOND
    return max(0, (_window(rate) - ahead) * rate.limit // _window(rate))


def after(rate: Rate, on_time: datetime, starts: int) -> datetime:
    """When the next start would be on time, once so many more have started."""
    return on_time + -(-starts * _window(rate) // rate.limit) * _MICROSECOND


def when(rate: Rate, on_time: datetime, position: int) -> datetime:
    """When the one that is number `position` in line may start; that of the first is when there is room."""
    return after(rate, on_time, position) - timedelta(seconds=rate.seconds)


def _window(rate: Rate) -> int:
    return round(rate.seconds * 1_000_000)
