"""The stretches of time that pages show: those with a name, and those that an address tells."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipeweave.api.ui.view import View
from pipeweave.orchestrator.telemetry.statistics import window

# Name -> how far back it goes.
PERIODS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}
# Bars of a chart that can still be hit with a pointer.
MOST_BARS = 75


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in the form that endpoints of statistics take.

    Args:
        name: one of PERIODS; empty for one that an address tells.
        begin, end: RFC 3339; without an end it goes on until now.
        bucket: the step in which it is shown.
    """

    name: str
    begin: str
    end: str | None
    bucket: str

    @property
    def query(self) -> dict[str, str | None]:
        """The parameters of an endpoint of statistics."""
        return {"from": self.begin, "to": self.end, "bucket": self.bucket}

    @property
    def words(self) -> str:
        """As titles tell it."""
        return f"last {self.name}" if self.name else "the chosen time"


def since(length: timedelta) -> str:
    """So long ago, in whole minutes: a page that looks again asks the same for a while."""
    return text(_now() - length)


def text(moment: datetime) -> str:
    """A moment as an endpoint takes it."""
    return moment.astimezone(UTC).replace(second=0, microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")


def chosen(view: View, default: str = "24h") -> Period:
    """The period that the parameter `window` of the address names."""
    name = view.parameters.get("window", "")
    return last(name if name in PERIODS else default)


def last(name: str) -> Period:
    """The period with this name."""
    now = _now()
    begin = (now - PERIODS[name]).replace(second=0, microsecond=0)
    return Period(name, text(begin), None, _bucket(now, begin, now))


def between(begin: datetime, end: datetime | None) -> Period | None:
    """A period of its own; None when it is none that has statistics."""
    now = _now()
    if end is not None and end >= now:
        end = None
    until = end or now
    if begin >= until or begin.year < 1970:
        return None
    return Period("", text(begin), None if end is None else text(end), _bucket(now, begin, until))


def _bucket(now: datetime, begin: datetime, end: datetime) -> str:
    return window(now, begin, end, most=MOST_BARS).step


def _now() -> datetime:
    return datetime.now(UTC)
