"""How an operation proceeds: its canary, its rate, its limit, and when it stops by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeweave.orchestrator.operations.pace import (
    LEAST_JUDGED,
    Outcomes,
    Pace,
    PaceDecision,
    decide,
    next_after,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NONE_YET = Outcomes()


def decided(pace: Pace, outcomes: Outcomes = NONE_YET, **given: Any) -> PaceDecision:
    state: dict[str, Any] = {"done": 0, "is_canary_over": False, "next_at": None, "now": NOW, "batch": 100}
    return decide(pace, outcomes, **{**state, **given})


def test_without_a_pace_whole_batches_are_retried_whatever_becomes_of_them() -> None:
    assert decided(Pace()) == PaceDecision(room=100)
    bad = Outcomes(failed_again=90, same_again=90)
    assert decided(Pace(), bad, done=90) == PaceDecision(room=100)


def test_a_canary_is_retried_first_and_its_end_is_awaited() -> None:
    pace = Pace(canary=3)
    assert decided(pace).room == 3
    assert decided(pace, Outcomes(unended=2), done=2).room == 1
    assert decided(pace, Outcomes(completed=2, unended=1), done=3) == PaceDecision()
    assert decided(pace, Outcomes(completed=3), done=3) == PaceDecision(room=100, ends_canary=True)
    assert decided(pace, Outcomes(completed=3, unended=9), done=12, is_canary_over=True).room == 100


def test_a_canary_that_fails_as_before_stops_the_redrive() -> None:
    pace = Pace(canary=3)
    found = decided(pace, Outcomes(completed=1, failed_again=2, same_again=2), done=3)
    assert (found.room, found.is_over) == (0, False)
    assert found.stops_because.startswith("2 of 3 retries")
    other = decided(pace, Outcomes(completed=1, failed_again=2, same_again=0), done=3)
    assert (other.stops_because, other.ends_canary) == ("", True)


@pytest.mark.parametrize(("same", "stops"), [(1, False), (2, True)])
def test_after_the_canary_a_share_is_judged_once_enough_have_ended(same: int, stops: bool) -> None:
    pace = Pace(stop_percent=20.0)
    few = Outcomes(failed_again=LEAST_JUDGED - 1, same_again=LEAST_JUDGED - 1)
    assert not decided(pace, few, done=50).stops_because
    enough = Outcomes(completed=LEAST_JUDGED - same, failed_again=same, same_again=same)
    assert bool(decided(pace, enough, done=50).stops_because) is stops


def test_no_share_is_more_than_a_hundred_percent() -> None:
    bad = Outcomes(failed_again=50, same_again=50)
    assert not decided(Pace(stop_percent=100.0), bad, done=50).stops_because
    assert decided(Pace(stop_percent=0.0), Outcomes(completed=9, failed_again=1, same_again=1)).stops_because


def test_a_limit_ends_it() -> None:
    assert decided(Pace(most=30)).room == 30
    assert decided(Pace(most=30), done=28).room == 2
    assert decided(Pace(most=30), done=30) == PaceDecision(is_over=True)
    assert decided(Pace(most=2, canary=5)).room == 2


def test_a_rate_gives_small_batches_and_a_time_for_the_next() -> None:
    pace = Pace(per_second=2.5)
    assert decided(pace).room == 3
    after = next_after(pace, None, 3, NOW)
    assert after == NOW - SECOND + timedelta(seconds=1.2)
    assert decided(pace, next_at=NOW + SECOND) == PaceDecision()
    assert next_after(pace, NOW + SECOND, 3, NOW) == NOW + SECOND + timedelta(seconds=1.2)
    assert next_after(pace, NOW - 60 * SECOND, 3, NOW) == after, "it makes up for one second only"
    assert next_after(Pace(), None, 3, NOW) is None


def test_a_slow_rate_retries_one_at_a_time() -> None:
    pace = Pace(per_second=0.1)
    assert decided(pace).room == 1
    assert next_after(pace, NOW, 1, NOW) == NOW + 10 * SECOND
