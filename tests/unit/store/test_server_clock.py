"""A process knows PostgreSQL's clock from its answers, and counts on from there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipeweave.orchestrator.store.server_clock import READ_EVERY_S, ServerClock

NOON = datetime(2031, 5, 2, 12, tzinfo=UTC)


class Steady:
    """A clock that nobody sets, moved on by the test."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def clock(steady: Steady) -> ServerClock:
    return ServerClock(steady)


def near(moment: datetime, expected: datetime) -> bool:
    return abs(moment - expected) < timedelta(milliseconds=1)


def test_a_clock_that_was_never_read_tells_no_time(clock: ServerClock) -> None:
    assert clock.is_stale
    assert not clock.is_known
    with pytest.raises(RuntimeError):
        clock.now()


def test_it_counts_on_from_the_answer(clock: ServerClock, steady: Steady) -> None:
    clock.record(NOON, steady())
    assert near(clock.now(), NOON)
    steady.at += 90
    assert near(clock.now(), NOON + timedelta(seconds=90))


def test_the_time_of_the_answer_lies_in_the_middle_of_the_first_round_trip(
    clock: ServerClock, steady: Steady
) -> None:
    asked = steady()
    steady.at += 2
    clock.record(NOON, asked)
    assert near(clock.now(), NOON + timedelta(seconds=1))


def test_an_answer_that_took_long_does_not_spoil_what_is_known(clock: ServerClock, steady: Steady) -> None:
    clock.record(NOON, steady())
    asked = steady()
    steady.at += 4
    # The question travelled for 4 s, the answer for none.
    clock.record(NOON + timedelta(seconds=4), asked)
    assert near(clock.now(), NOON + timedelta(seconds=4))


def test_a_server_whose_clock_was_set_is_followed(clock: ServerClock, steady: Steady) -> None:
    clock.record(NOON, steady())
    for moved in (timedelta(minutes=11), timedelta(minutes=-11)):
        clock.record(NOON + moved, steady())
        assert near(clock.now(), NOON + moved)


def test_it_is_read_again_after_a_while(clock: ServerClock, steady: Steady) -> None:
    clock.record(NOON, steady())
    steady.at += READ_EVERY_S
    assert not clock.is_stale
    steady.at += 0.1
    assert clock.is_stale
