"""However many ask for the metrics, they are read once in a while."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeweave.orchestrator.metrics import KeptMetrics, Samples
from pipeweave.orchestrator.metrics.kept import KEPT_PER_COST, KEPT_S, LONGEST_S


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Reading:
    """Counts how often metrics are read; a reading takes some seconds of the clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.cost = 0.0
        self.number = 0
        self.fails = False

    def __call__(self) -> Samples:
        self.number += 1
        if self.fails:
            raise RuntimeError("broken")
        self.clock.now += self.cost
        return Samples()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reading(clock: Clock) -> Reading:
    return Reading(clock)


@pytest.fixture
def kept(reading: Reading, clock: Clock) -> KeptMetrics:
    return KeptMetrics(reading, clock)


def test_what_was_read_is_kept_for_some_seconds(kept: KeptMetrics, reading: Reading, clock: Clock) -> None:
    assert {kept.get().number for _ in range(50)} == {1}
    clock.now += KEPT_S + 0.1
    assert {kept.get().number for _ in range(50)} == {2}
    assert reading.number == 2


def test_reading_takes_a_small_part_of_the_time(kept: KeptMetrics, reading: Reading, clock: Clock) -> None:
    reading.cost = 2.0
    kept.get()
    clock.now += KEPT_PER_COST * 2.0 - 0.1
    kept.get()
    assert reading.number == 1
    clock.now += 0.2
    kept.get()
    assert reading.number == 2


def test_a_failed_reading_is_tried_again_by_the_next_caller(kept: KeptMetrics, reading: Reading) -> None:
    reading.fails = True
    with pytest.raises(RuntimeError):
        kept.get()
    reading.fails = False
    assert kept.get().number == 1


def test_callers_at_once_wait_for_one_reading_and_later_ones_get_what_is_kept(clock: Clock) -> None:
    reads, may_end, begun = [], threading.Event(), threading.Event()

    def read() -> Samples:
        reads.append(1)
        begun.set()
        assert may_end.wait(30)
        return Samples()

    kept = KeptMetrics(read, clock)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(kept.get) for _ in range(8)]
        may_end.set()
        assert {each.result(30).number for each in asked} == {1}
        clock.now += KEPT_S + 1
        may_end.clear()
        begun.clear()
        second = threads.submit(kept.get)
        assert begun.wait(30)
        assert kept.get().number == 1, "one reads anew, the others do not wait"
        clock.now += LONGEST_S
        late = threads.submit(kept.get)
        may_end.set()
        assert {second.result(30).number, late.result(30).number} <= {2, 3}
    assert len(reads) <= 3
