"""Stretches of time that statistics are asked for, and the steps that they are shown in (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.telemetry.statistics.grains import Grain, floor

MOST_POINTS = 300
# Points of the sparklines of a list.
POINTS = 25
# How far back queues are shown, in at most so many points: 2 minutes each.
LAST = timedelta(hours=1)
QUEUE_POINTS = 31
# Buckets of one answer in the shape of the worker protocol.
MOST_BUCKETS = 1_500
# Nothing was counted before, and no answer needs years beyond it.
MOST_DAYS = 36_500
# Beyond it, the end of a step may be no date any more.
LAST_YEAR = 9000

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STEPS = {
    **{f"{n}m": n * _MINUTE for n in (1, 2, 5, 10, 15, 30)},
    **{f"{n}h": n * _HOUR for n in (1, 2, 3, 6, 12)},
    **{f"{n}d": n * _DAY for n in (1, 2, 7, 30, 90, 365)},
}
"""Lengths of steps by name, the shortest first."""


@dataclass(frozen=True, slots=True)
class StatsWindow:
    """A stretch of time in equal steps.

    Args:
        begin: a multiple of the step.
        end: not included.
        step: the name of a step.
    """

    begin: datetime
    end: datetime
    step: str

    @property
    def length(self) -> timedelta:
        """How long a step is."""
        return STEPS[self.step]

    @property
    def grain(self) -> Grain:
        """The rows that its steps are made of."""
        if self.length < _HOUR:
            return Grain.MINUTE
        return Grain.HOUR if self.length < _DAY else Grain.DAY

    def starts(self) -> Iterator[datetime]:
        """When each step begins."""
        moment = self.begin
        while moment < self.end:
            yield moment
            moment += self.length

    def start_of(self, moment: datetime) -> datetime:
        """When the step begins that a moment is in."""
        return floor(moment, self.length)


def window(
    now: datetime,
    begin: datetime | None,
    end: datetime | None,
    *,
    step: str | None = None,
    last: timedelta = timedelta(hours=24),
    most: int = MOST_POINTS,
) -> StatsWindow:
    """A stretch of time, made longer to whole steps.

    Args:
        begin: None: `last` before the end.
        end: None: now.
        step: None: the shortest of which `most` suffice, and whose rows are kept for so long.
        most: at most so many steps.

    Raises:
        InvalidInput: it ends before it begins, or has too many steps.
    """
    end = end or now
    begin = end - last if begin is None else begin
    if not (timedelta() < end - begin <= MOST_DAYS * _DAY and begin.year >= 1970 and end.year < LAST_YEAR):
        message = f"must be before `to`, by at most {MOST_DAYS:,} days, and both after 1970"
        raise InvalidInput(f"from {message}", errors=[FieldError("from", message, "invalid_value")])
    fitting = [name for name in STEPS if _fits(begin, end, name, now, most)]
    if step is None:
        return _of(begin, end, fitting[0] if fitting else list(STEPS)[-1])
    stretch = _of(begin, end, step)
    if (stretch.end - stretch.begin) / stretch.length > most:
        message = f"gives more than {most} buckets from {begin.isoformat()} to {end.isoformat()}"
        hint = f"ask for bucket={fitting[0]}, or for less time" if fitting else "ask for less time"
        raise InvalidInput(f"bucket {message}", errors=[FieldError("bucket", message, "too_many")], hint=hint)
    return stretch


def _of(begin: datetime, end: datetime, step: str) -> StatsWindow:
    length = STEPS[step]
    whole = floor(end, length)
    return StatsWindow(floor(begin, length), whole if whole == end else whole + length, step)


def _fits(begin: datetime, end: datetime, step: str, now: datetime, most: int) -> bool:
    stretch = _of(begin, end, step)
    kept = stretch.grain.kept
    is_kept = kept is None or begin >= now - kept
    return is_kept and (stretch.end - stretch.begin) / stretch.length <= most
