"""When a month is old enough to go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.settings import Settings

MARCH = Month(2026, 3)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2900, 1, 1), timezones=st.just(UTC))


def test_without_a_retention_history_is_kept_for_ever() -> None:
    policy = Policy.of(Settings())
    assert (policy.runs, policy.due_at(MARCH)) == (None, None)
    assert not policy.is_due(MARCH, datetime(2999, 1, 1, tzinfo=UTC))


def test_the_settings_are_the_policy() -> None:
    policy = Policy.of(Settings(run_retention_days=90, archive_runs=False, dlq_retention_days=7))
    assert policy == Policy(timedelta(days=90), False, timedelta(days=7))


@pytest.mark.parametrize(
    ("now", "is_due"),
    [
        (datetime(2026, 3, 31, 23, 59, tzinfo=UTC), False),
        (datetime(2026, 4, 29, 23, 59, tzinfo=UTC), False),
        (datetime(2026, 5, 1, tzinfo=UTC), True),
    ],
)
def test_a_month_is_due_when_its_last_moment_is_old_enough(now: datetime, is_due: bool) -> None:
    assert Policy(timedelta(days=30)).is_due(MARCH, now) is is_due


@given(MOMENTS, st.integers(0, 36_500))
def test_no_run_of_a_month_that_is_due_is_younger_than_the_policy(created: datetime, days: int) -> None:
    policy = Policy(timedelta(days=days))
    due_at = policy.due_at(Month.of(created))
    assert due_at is not None
    assert due_at - created > timedelta(days=days)
    assert policy.is_due(Month.of(created), due_at)
    assert not policy.is_due(Month.of(created), due_at - timedelta(microseconds=1))


@given(MOMENTS, st.integers(0, 36_500))
def test_the_month_under_way_is_never_due(now: datetime, days: int) -> None:
    assert not Policy(timedelta(days=days)).is_due(Month.of(now), now)
