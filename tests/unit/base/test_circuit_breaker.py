"""A broker that is away costs one try per pause."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.circuit_breaker import PAUSE_S, SHORT_PAUSE_S, CircuitBreaker


class Clock:
    """A clock the test moves on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock=clock)


def test_everybody_may_try_a_broker_that_is_there(breaker: CircuitBreaker) -> None:
    assert all(breaker.may_try() for _ in range(5))
    breaker.succeeded()
    assert breaker.may_try()


def test_after_a_failure_and_a_pause_one_caller_may_try(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.failed("refused")
    assert not breaker.may_try()
    clock.now += PAUSE_S - 0.01
    assert not breaker.may_try()
    clock.now += 0.01
    assert [breaker.may_try() for _ in range(3)] == [True, False, False]


def test_the_caller_that_tried_decides_for_all(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.failed("refused")
    clock.now += PAUSE_S
    assert breaker.may_try()
    breaker.failed("refused")
    clock.now += PAUSE_S - 0.01
    assert not breaker.may_try()
    clock.now += 0.01
    assert breaker.may_try()
    breaker.succeeded()
    assert all(breaker.may_try() for _ in range(3))


def test_a_caller_that_never_reports_back_delays_others_for_one_pause_only(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    breaker.failed("refused")
    clock.now += PAUSE_S
    assert breaker.may_try()
    clock.now += PAUSE_S
    assert breaker.may_try()


def test_a_broker_that_leaves_and_returns_is_logged_once_each(
    breaker: CircuitBreaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            breaker.failed("refused")
            clock.now += PAUSE_S
            breaker.may_try()
        breaker.may_try()
        breaker.succeeded()
        breaker.succeeded()
    assert [record.getMessage() for record in caplog.records] == ["broker.away", "broker.back"]
    away, back = (vars(record) for record in caplog.records)
    assert (away["reason"], back["skipped"]) == ("refused", 1)


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=60))
def test_failures_are_at_least_a_pause_apart(calls: list[tuple[float, bool]]) -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    last_failure = float("-inf")
    for wait, is_there in calls:
        clock.now += wait
        if breaker.may_try():
            assert clock.now >= last_failure + PAUSE_S
            if is_there:
                breaker.succeeded()
            else:
                breaker.failed("refused")
                last_failure = clock.now


def test_after_a_failure_that_cost_nothing_the_pause_is_short(clock: Clock, breaker: CircuitBreaker) -> None:
    breaker.failed("refused", at_once=True)
    assert not breaker.may_try()
    clock.now += SHORT_PAUSE_S
    assert breaker.may_try()
    breaker.failed("no answer")
    clock.now += SHORT_PAUSE_S
    assert not breaker.may_try()
