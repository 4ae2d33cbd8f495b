"""What the last fires of a schedule came to: its last run, its share of success, its lag (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

# Ends of runs of which some are good.
_ENDS = {"completed", "partial", "failed"}


@dataclass(frozen=True, slots=True)
class LastFires:
    """A summary of fires.

    Args:
        last: the newest fire that began a run.
        success_rate: of the runs that ended and were not cancelled.
        lag_ms: how long after the times that were due it was decided about them, by the median.
    """

    last: Mapping[str, Any] | None
    success_rate: float | None
    lag_ms: float | None

    @classmethod
    def of(cls, fires: Sequence[Mapping[str, Any]]) -> LastFires:
        """The summary of fires as the API lists them, the newest first."""
        ends = [each["runStatus"] for each in fires if each["runStatus"] in _ENDS]
        lags = [lag_ms(each) for each in fires if each["kind"] == "due"]
        return cls(
            next((each for each in fires if each["runId"]), None),
            ends.count("completed") / len(ends) if ends else None,
            median(lags) if lags else None,
        )


def lag_ms(fire: Mapping[str, Any]) -> float:
    """How long after its time it was decided about a fire; by hand, that is the same moment."""
    due, decided = (datetime.fromisoformat(fire[name]) for name in ("scheduledAt", "firedAt"))
    return max(0.0, (decided - due).total_seconds() * 1_000)
