"""The alarm of a call stops that call, and nothing beside it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pipeweave.errors import AttemptFenced, AttemptTimedOut
from pipeweave.workers.consumer.time_limit import TimeLimit

FENCED = AttemptFenced("the attempt is not this worker's any more")
FIRST, SECOND = "the first call", "the second call"


@pytest.fixture
def limit() -> Iterator[TimeLimit]:
    before = signal.getsignal(signal.SIGALRM)
    yield TimeLimit()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def ring() -> None:
    """An alarm comes, whoever set it."""
    signal.raise_signal(signal.SIGALRM)


def test_a_call_is_stopped_when_its_time_is_over(limit: TimeLimit) -> None:
    with pytest.raises(AttemptTimedOut, match=r"Operation timed out after 10ms"), limit.of(0.01, FIRST):
        signal.pause()


def test_a_call_that_is_not_wanted_any_more_is_told_why(limit: TimeLimit) -> None:
    with pytest.raises(AttemptFenced), limit.of(30, FIRST):
        limit.interrupt(FIRST, FENCED)
        ring()


def test_no_alarm_is_left_behind_a_call(limit: TimeLimit) -> None:
    with limit.of(30, FIRST):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 30
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_alarm_that_comes_when_the_call_has_returned_stops_nothing(limit: TimeLimit) -> None:
    with limit.of(30, FIRST):
        pass
    ring()
    limit.interrupt(FIRST, FENCED)


def test_a_call_is_stopped_once_so_that_it_can_clean_up(limit: TimeLimit) -> None:
    with limit.of(30, FIRST):
        with pytest.raises(AttemptFenced):
            limit.interrupt(FIRST, FENCED)
            ring()
        ring()


def test_an_interruption_that_comes_too_late_does_not_stop_the_next_call(limit: TimeLimit) -> None:
    """Another thread decides to interrupt a call, and that call returns before the alarm is heard."""
    with limit.of(30, FIRST):
        pass
    with limit.of(30, SECOND):
        limit.interrupt(FIRST, FENCED)
        ring()
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 30, "its own time limit still holds"


def test_an_alarm_that_comes_too_early_leaves_the_call_its_time(limit: TimeLimit) -> None:
    with pytest.raises(AttemptTimedOut), limit.of(0.05, FIRST):
        ring()
        signal.pause()
