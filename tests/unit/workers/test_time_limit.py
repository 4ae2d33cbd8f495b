"""The alarm of a call stops that call, and nothing beside it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pipeweave.errors import AttemptFenced, AttemptTimedOut
from pipeweave.workers.consumer.time_limit import TimeLimit

FENCED = AttemptFenced("the attempt is not this worker's any more")


@pytest.fixture
def limit() -> Iterator[TimeLimit]:
    before = signal.getsignal(signal.SIGALRM)
    yield TimeLimit()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def ring() -> None:
    """The time is over, or another thread wants the call to stop."""
    signal.raise_signal(signal.SIGALRM)


def test_a_call_is_stopped_when_its_time_is_over(limit: TimeLimit) -> None:
    with pytest.raises(AttemptTimedOut, match=r"longer than 30 s"), limit.of(30):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 30
        ring()


def test_a_call_that_is_not_wanted_any_more_is_told_why(limit: TimeLimit) -> None:
    with pytest.raises(AttemptFenced), limit.of(30):
        limit.interrupt(FENCED)
        ring()


def test_no_alarm_is_left_behind_a_call(limit: TimeLimit) -> None:
    with limit.of(30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_alarm_that_comes_when_the_call_has_returned_stops_nothing(limit: TimeLimit) -> None:
    with limit.of(30):
        pass
    ring()
    limit.interrupt(FENCED)


def test_a_call_is_stopped_once_so_that_it_can_clean_up(limit: TimeLimit) -> None:
    with limit.of(30):
        with pytest.raises(AttemptTimedOut):
            ring()
        ring()


def test_a_reason_that_came_too_late_is_not_the_next_call_s(limit: TimeLimit) -> None:
    with limit.of(30):
        pass
    limit.interrupt(FENCED)
    with pytest.raises(AttemptTimedOut), limit.of(30):
        ring()
