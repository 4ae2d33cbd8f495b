"""Periods of pages: few enough bars, and the same question for a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipeweave.api.ui import periods
from pipeweave.orchestrator.telemetry.statistics import STEPS

NOW = datetime(2026, 11, 23, 14, 5, 42, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periods, "_now", lambda: NOW)


@pytest.mark.parametrize("name", periods.PERIODS)
def test_a_period_has_bars_that_can_be_hit(name: str) -> None:
    found = periods.last(name)
    assert 20 <= periods.PERIODS[name] / STEPS[found.bucket] <= periods.MOST_BARS
    assert found.begin.endswith(":05:00Z")
    assert found.query["to"] is None
    assert found.words == f"last {name}"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (None, None),
        (NOW + timedelta(days=1), None),
        (NOW - timedelta(minutes=5), "2026-11-23T14:00:00Z"),
    ],
)
def test_a_time_of_the_address_ends_now_at_the_latest(end: datetime | None, told: str | None) -> None:
    found = periods.between(NOW - timedelta(minutes=30), end)
    assert found is not None
    assert (found.begin, found.end, found.bucket) == ("2026-11-23T13:35:00Z", told, "1m")


@pytest.mark.parametrize("begin", [NOW + timedelta(hours=1), datetime(1, 1, 1, tzinfo=UTC)])
def test_a_time_that_has_no_statistics_is_none(begin: datetime) -> None:
    assert periods.between(begin, None) is None
