"""What is watched takes a bounded share of the time, and fetches are spread."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeweave.orchestrator.stream.pace import LEAST_S, MOST_S, MOST_SHARE, SHARE, Allowance, ViewPace


@dataclass
class Time:
    """A clock that the test turns."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> ViewPace:
    return ViewPace(time)


def test_a_cheap_view_is_computed_twice_a_second(pace: ViewPace) -> None:
    pace.record("/runs", 0.01)
    assert pace.rest_s("/runs") == LEAST_S
    assert pace.rest_s("a view that nobody has computed") == LEAST_S


def test_one_view_takes_a_twentieth_of_the_time(pace: ViewPace) -> None:
    for _ in range(2):
        pace.record("/runs", 0.5)
    assert pace.rest_s("/runs") == pytest.approx(10)


def test_a_view_that_waited_once_for_a_database_that_was_away_does_not_rest_for_that(pace: ViewPace) -> None:
    pace.record("/runs", 0.01)
    pace.record("/runs", 10)
    assert pace.rest_s("/runs") == LEAST_S
    pace.record("opened meanwhile", 10)
    assert pace.rest_s("opened meanwhile") <= MOST_S


def test_the_dearest_view_is_shown_again_after_some_time(pace: ViewPace) -> None:
    for _ in range(2):
        pace.record("/", 3.0)
    assert pace.rest_s("/") <= 30


@pytest.mark.parametrize("views", [1, 5, 10, 30, 100, 1_000])
def test_all_views_together_take_a_bounded_share(pace: ViewPace, views: int) -> None:
    took = 0.01
    for each in range(views):
        pace.record(each, took)
    share = sum(took / pace.rest_s(each) for each in range(views))
    assert share <= MOST_SHARE + 1e-9
    # Nobody waits longer than that only to keep the smaller share.
    assert share <= SHARE + 1e-9 or pace.rest_s(0) >= MOST_S


def test_what_nobody_computes_any_more_does_not_count(pace: ViewPace, time: Time) -> None:
    for each in range(1_000):
        pace.record(each, 0.01)
    time.now += 60
    pace.record("/runs", 0.01)
    assert pace.rest_s("/runs") == LEAST_S


def test_an_allowance_lets_through_evenly(time: Time) -> None:
    allowance = Allowance(20, 5, time)
    passed = []
    for _ in range(8):
        passed.append(allowance.take(100))
        time.now += 0.25
    assert passed == [5] * 8


def test_an_allowance_that_was_not_used_does_not_grow(time: Time) -> None:
    allowance = Allowance(20, 5, time)
    time.now += 3_600
    assert [allowance.take(3), allowance.take(3), allowance.take(3)] == [3, 2, 0]


def test_a_small_allowance_lets_one_through_at_last(time: Time) -> None:
    allowance = Allowance(0.5, 0.1, time)
    assert allowance.take(1) == 1
    time.now += 1
    assert allowance.take(1) == 0
    time.now += 1
    assert allowance.take(1) == 1
