"""Windows have whole steps, as few as were asked for, of rows that are kept for so long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.api.contract.statistics import StatsQuery, Step
from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.telemetry.statistics import MOST_POINTS, STEPS, window
from pipeweave.orchestrator.telemetry.statistics.grains import Grain

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("last", "step", "grain"),
    [
        (HOUR, "1m", Grain.MINUTE),
        (6 * HOUR, "2m", Grain.MINUTE),
        (DAY, "5m", Grain.MINUTE),
        (3 * DAY, "1h", Grain.HOUR),
        (60 * DAY, "6h", Grain.HOUR),
        (91 * DAY, "1d", Grain.DAY),
        (3_000 * DAY, "30d", Grain.DAY),
    ],
)
def test_the_step_is_the_shortest_that_suffices(last: timedelta, step: str, grain: Grain) -> None:
    found = window(NOW, None, None, last=last)
    assert (found.step, found.grain) == (step, grain)


@given(st.timedeltas(MINUTE, 20_000 * DAY), st.timedeltas(timedelta(), 400 * DAY))
def test_a_window_holds_what_was_asked_in_at_most_300_steps(last: timedelta, ago: timedelta) -> None:
    end = NOW - ago
    found = window(NOW, end - last, end)
    starts = list(found.starts())
    assert found.begin <= end - last < found.begin + found.length
    assert found.end - found.length < end <= found.end
    assert 1 <= len(starts) <= MOST_POINTS
    assert all(found.start_of(each) == each for each in starts)


def test_too_many_buckets_are_refused_with_the_bucket_that_fits() -> None:
    with pytest.raises(InvalidInput) as refused:
        window(NOW, NOW - 7 * DAY, NOW, step="1m")
    assert refused.value.errors[0].field == "bucket"
    assert "bucket=1h" in str(refused.value.hint)


@pytest.mark.parametrize("begin", [NOW, NOW + HOUR, NOW - 40_000 * DAY, NOW - 21_000 * DAY])
def test_time_goes_forward_and_is_bounded(begin: datetime) -> None:
    with pytest.raises(InvalidInput) as refused:
        window(NOW, begin, NOW)
    assert refused.value.errors[0].field == "from"


def test_the_api_names_all_steps() -> None:
    assert list(get_args(Step)) == list(STEPS)
    assert StatsQuery.model_validate({"bucket": "15m"}).window(NOW).length == 15 * MINUTE
