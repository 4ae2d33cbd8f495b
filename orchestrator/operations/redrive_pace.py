"""Decides how a redrive goes on: how many dead letters it retries next, whether it waits, and when it stops.

A redrive may first retry a few (the canary) and wait until they have ended. It stops by itself when too many
of those that ended failed again as they did before: then what made them fail is still there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# A share is judged once so many retries have ended; a canary is judged by all of its retries.
LEAST_JUDGED = 5
# The share (percent) above which a redrive with a canary stops, if nothing else was said.
CANARY_STOP_PERCENT = 50.0
# A redrive whose tick came late makes up for so much of its rate.
CATCH_UP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a redrive proceeds.

    Args:
        most: dead letters that it retries at most; None for all that match.
        canary: so many are retried first, and the others when these have ended; None for no trial.
        per_second: retries in a second; None for as many as it can.
        stop_percent: it stops when more than this share of the retries that ended failed again with the same
            fingerprint; None: it never does.
    """

    most: int | None = None
    canary: int | None = None
    per_second: float | None = None
    stop_percent: float | None = None

    @classmethod
    def of(cls, row: Any) -> Pace:
        """The pace in a row of `redrives`."""
        return cls(row.most, row.canary, row.per_second, row.stop_percent)

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

    def to_json(self) -> Mapping[str, int]:
        """As the API shows them."""
        return {
            "completed": self.completed,
            "failedAgain": self.failed_again,
            "sameAgain": self.same_again,
            "endedOtherwise": self.ended_otherwise,
            "unended": self.unended,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What a redrive does now.

    Args:
        room: how many it may retry; 0: it waits.
        is_over: it has retried all that it was asked to.
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
    retried: int,
    is_canary_over: bool,
    next_at: datetime | None,
    now: datetime,
    batch: int,
) -> Decision:
    """What a redrive does now.

    Args:
        retried: how many it has retried so far.
        is_canary_over: whether an earlier decision ended its canary.
        next_at: when its rate allows the next retry.
        batch: how many may be retried together.
    """
    in_canary = pace.canary is not None and not is_canary_over
    if pace.canary is not None and in_canary and retried < pace.canary:
        batch = min(batch, pace.canary - retried)
        in_canary = False
    elif in_canary and outcomes.unended:
        return Decision()
    if reason := _stops(pace, outcomes, is_canary=in_canary):
        return Decision(stops_because=reason)
    if pace.most is not None:
        if retried >= pace.most:
            return Decision(is_over=True, ends_canary=in_canary)
        batch = min(batch, pace.most - retried)
    if pace.per_second is not None:
        if next_at is not None and now < next_at:
            return Decision(ends_canary=in_canary)
        batch = min(batch, math.ceil(pace.per_second))
    return Decision(room=batch, ends_canary=in_canary)


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


def next_after(pace: Pace, next_at: datetime | None, retried: int, now: datetime) -> datetime | None:
    """When the rate allows the next retry, after these; None without a rate."""
    if pace.per_second is None:
        return None
    earliest = now - CATCH_UP
    since = earliest if next_at is None or next_at < earliest else next_at
    return since + timedelta(seconds=retried / pace.per_second)
