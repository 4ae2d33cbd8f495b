"""The stretches of time that statistics are kept for, and how long (pure)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Grain(StrEnum):
    """How long a stretch is; all of them in UTC. `ever` is all time since the statistics began."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    EVER = "ever"

    @property
    def length(self) -> timedelta:
        """How long it lasts; 0 for `ever`."""
        return _LENGTHS[self]

    @property
    def kept(self) -> timedelta | None:
        """How long its rows are kept; None for ever."""
        return _KEPT.get(self)

    def begin_of(self, moment: datetime) -> datetime:
        """When the stretch began that a moment is in."""
        return _EPOCH if self is Grain.EVER else floor(moment, self.length)


_LENGTHS = {
    Grain.MINUTE: timedelta(minutes=1),
    Grain.HOUR: timedelta(hours=1),
    Grain.DAY: timedelta(days=1),
    Grain.EVER: timedelta(),
}
_KEPT = {Grain.MINUTE: timedelta(hours=48), Grain.HOUR: timedelta(days=90)}


def floor(moment: datetime, length: timedelta) -> datetime:
    """The last whole multiple of a length, counted from 1970 in UTC, that is not after a moment."""
    return _EPOCH + (moment - _EPOCH) // length * length


def at_minute(minute: int) -> datetime:
    """When this minute since 1970 began."""
    return _EPOCH + timedelta(minutes=minute)
