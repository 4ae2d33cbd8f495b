"""Times in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.domain import in_utc

OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS))
def test_a_time_in_utc_is_the_same_moment(moment: datetime) -> None:
    assert in_utc(moment) == moment
    assert in_utc(moment).tzinfo is UTC


@given(st.datetimes(timezones=OFFSETS))
def test_a_time_at_the_end_of_the_calendar_moves_by_less_than_a_day(moment: datetime) -> None:
    assert abs(in_utc(moment) - moment.replace(tzinfo=UTC)) < timedelta(days=1)
