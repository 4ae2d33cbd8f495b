"""Months: their names, spans, ids and tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import ids
from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.domain import months
from pipeweave.orchestrator.domain.months import Month

MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30), timezones=st.just(UTC))


@given(MOMENTS)
def test_a_moment_lies_in_its_month(moment: datetime) -> None:
    month = Month.of(moment)
    assert month.start <= moment < month.end
    assert Month.parse(str(month)) == month


@given(MOMENTS)
def test_an_id_lies_between_the_bounds_of_its_month(moment: datetime) -> None:
    made = ids.new_id(int(moment.timestamp() * 1000))
    month = Month.of_id(made)
    assert month.first_id <= made < month.next.first_id
    assert month == Month.of(moment)


@given(MOMENTS)
def test_months_follow_each_other_without_a_gap(moment: datetime) -> None:
    month = Month.of(moment)
    assert month < month.next
    assert month.end == month.next.start


def test_a_month_is_one_of_utc() -> None:
    assert Month.of(datetime(2026, 4, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == Month(2026, 3)


def test_a_month_names_its_tables() -> None:
    assert Month(2026, 3).table("task_runs") == "task_runs_2026_03"


def test_the_months_ahead_begin_with_this_one() -> None:
    found = months.ahead(datetime(2026, 11, 5, tzinfo=UTC), 2)
    assert [str(each) for each in found] == ["2026-11", "2026-12", "2027-01"]


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-3", "2026-13", "2026-00", "0026-03", "2026-03-01", "march"]
)
def test_a_text_that_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Month.parse(text)
    assert caught.value.errors[0].expected == "YYYY-MM"


def test_an_id_of_a_year_that_no_clock_shows_belongs_to_the_last_month() -> None:
    assert Month.of_id(UUID(int=(1 << 128) - 1)) == months.LAST
