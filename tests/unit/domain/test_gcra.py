"""Rates over any sequence of lettings-go: what they promise, and what they let go at least."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.domain import gcra
from pipeweave.rates import Rate

START = datetime(2026, 11, 20, tzinfo=UTC)

RATES = st.builds(Rate, st.integers(1, 1_000), st.sampled_from([1.0, 60.0, 3_600.0]))
# Pauses between looks, as parts of the window, and how many want to go at each look.
LOOKS = st.lists(st.tuples(st.floats(0, 0.7), st.integers(0, 1_500)), min_size=1, max_size=60)


def go(rate: Rate, looks: list[tuple[float, int]]) -> list[tuple[datetime, int]]:
    """When how many went."""
    now, at, gone = START, None, []
    for pause, wanted in looks:
        now += timedelta(seconds=pause * rate.seconds)
        on_time = gcra.on_time(rate, at, now, 0)
        starts = min(wanted, gcra.room(rate, on_time, now))
        at = gcra.after(rate, on_time, starts)
        gone.append((now, starts))
    return gone


@given(RATES, LOOKS)
def test_no_window_sees_more_than_a_burst_and_what_the_rate_gives_in_it(
    rate: Rate, looks: list[tuple[float, int]]
) -> None:
    gone = go(rate, looks)
    for first in range(len(gone)):
        total = 0
        for now, starts in gone[first:]:
            total += starts
            window = (now - gone[first][0]).total_seconds()
            assert total <= rate.limit + window * rate.limit / rate.seconds + 1e-6


@given(RATES, LOOKS)
def test_in_a_window_of_the_rate_less_than_twice_as_many_start(
    rate: Rate, looks: list[tuple[float, int]]
) -> None:
    gone = go(rate, looks)
    for first, (begin, _) in enumerate(gone):
        inside = [starts for now, starts in gone[first:] if (now - begin).total_seconds() < rate.seconds]
        assert sum(inside) < 2 * rate.limit


@given(RATES)
def test_after_a_quiet_window_the_whole_burst_goes(rate: Rate) -> None:
    for at in (None, START - timedelta(days=1), START):
        on_time = gcra.on_time(rate, at, START, 0)
        assert gcra.room(rate, on_time, START) == rate.limit
        spent = gcra.after(rate, on_time, rate.limit)
        assert gcra.room(rate, spent, START) == 0


@given(RATES, st.integers(1, 1_000))
def test_the_next_start_is_the_first_moment_with_room(rate: Rate, starts: int) -> None:
    on_time = gcra.after(rate, START, rate.limit + starts % 3)
    moment = gcra.when(rate, on_time, 1)
    assert gcra.room(rate, on_time, moment) >= 1
    assert gcra.room(rate, on_time, moment - timedelta(microseconds=1)) == 0


def test_a_busy_rate_lets_one_go_each_spacing() -> None:
    rate = Rate(100, 60.0)
    spent = gcra.after(rate, START, 100)
    for number in (1, 2, 50):
        now = START + timedelta(seconds=0.6 * number)
        assert gcra.room(rate, gcra.on_time(rate, spent, now, 0), now) == number


@pytest.mark.parametrize("unstarted", [0, 40, 100])
def test_no_starts_accumulate_behind_queued_task_runs(unstarted: int) -> None:
    rate = Rate(100, 60.0)
    now = START + timedelta(hours=1)
    on_time = gcra.on_time(rate, START, now, unstarted)
    assert gcra.room(rate, on_time, now) == 100 - unstarted
