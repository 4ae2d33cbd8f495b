"""Decides how an operation goes on: how many objects it changes next, whether it waits, and when it stops.

A redrive may first retry a few (the canary) and wait until they have ended. It stops by itself when too many
of those that ended failed again as they did before: then what made them fail is still there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

# A share is judged once so many retries have ended; a canary is judged by all of its retries.
LEAST_JUDGED = 5
# The share (percent) above which a redrive with a canary stops, if nothing else was said.
CANARY_STOP_PERCENT = 50.0
# An operation whose tick came late makes up for so much of its rate.
CATCH_UP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How an operation proceeds.

    Args:
        most: objects that it changes at most; None for all that match.
        canary: so many are retried first, and the others when these have ended; None for no trial.
        per_second: objects that it changes in a second; None for as many as it can.
        stop_percent: it stops when more than this share of the retries that ended failed again with the same
            fingerprint; None: it never does.
    """

    most: int | None = None
    canary: int | None = None
    per_second: float | None = None
    stop_percent: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether it matters what becomes of the retries."""
        return self.canary is not None or self.stop_percent is not None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the retries of a redrive.

    Args:
        completed: that completed.
        failed_again: that failed with a new dead letter, whatever its fingerprint.
        same_again: of these, with the fingerprint of the first failure.
        ended_otherwise: that were cancelled or skipped, or whose history is gone.
        unended: that have not ended.
    """

    completed: int = 0
    failed_again: int = 0
    same_again: int = 0
    ended_otherwise: int = 0
    unended: int = 0

    @property
    def ended(self) -> int:
        """Retries that have ended."""
        return self.completed + self.failed_again + self.ended_otherwise

    @property
    def same_percent(self) -> float:
        """The share of those that ended that failed again with the same fingerprint (percent)."""
        return 100 * self.same_again / self.ended if self.ended else 0.0


@dataclass(frozen=True, slots=True)
class PaceDecision:
    """What an operation does now.

    Args:
        room: how many objects it may change; 0: it waits.
        is_over: it has changed as many as it may.
        stops_because: why it stops by itself; empty: it does not.
        ends_canary: its trial is over, and was good.
    """

    room: int = 0
    is_over: bool = False
    stops_because: str = ""
    ends_canary: bool = False


def decide(
    pace: Pace,
    outcomes: Outcomes,
    *,
    done: int,
    is_canary_over: bool,
    next_at: datetime | None,
    now: datetime,
    batch: int,
) -> PaceDecision:
    """What an operation does now.

    Args:
        done: how many objects it has changed so far.
        is_canary_over: whether an earlier decision ended its canary.
        next_at: when its rate allows the next object.
        batch: how many may be changed together.
    """
    in_canary = pace.canary is not None and not is_canary_over
    if pace.canary is not None and in_canary and done < pace.canary:
        batch = min(batch, pace.canary - done)
        in_canary = False
    elif in_canary and outcomes.unended:
        return PaceDecision()
    if reason := _stops(pace, outcomes, is_canary=in_canary):
        return PaceDecision(stops_because=reason)
    if pace.most is not None:
        if done >= pace.most:
            return PaceDecision(is_over=True, ends_canary=in_canary)
        batch = min(batch, pace.most - done)
    if pace.per_second is not None:
        if next_at is not None and now < next_at:
            return PaceDecision(ends_canary=in_canary)
        batch = min(batch, math.ceil(pace.per_second))
    return PaceDecision(room=batch, ends_canary=in_canary)


def _stops(pace: Pace, outcomes: Outcomes, *, is_canary: bool) -> str:
    most = pace.stop_percent
    if most is None:
        most = CANARY_STOP_PERCENT if is_canary else 100.0
    least = 1 if is_canary else LEAST_JUDGED
    if outcomes.ended < least or outcomes.same_percent <= most:
        return ""
    return (
        f"{outcomes.same_again:,} of {outcomes.ended:,} retries that ended failed again in the same way,"
        f" more than {most:g} %"
    )


def next_after(pace: Pace, next_at: datetime | None, number: int, now: datetime) -> datetime | None:
    """When the rate allows the next object, after this number of them; None without a rate."""
    if pace.per_second is None:
        return None
    earliest = now - CATCH_UP
    since = earliest if next_at is None or next_at < earliest else next_at
    return since + timedelta(seconds=number / pace.per_second)
