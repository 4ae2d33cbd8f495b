"""What a worker says of its load: counted in the memory of its children, measured in /proc."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from pipeweave import ids
from pipeweave.process_use import ProcessUse, use_of
from pipeweave.workers.consumer import child_slots
from pipeweave.workers.consumer.child_slots import Slot, Slots
from pipeweave.workers.process import load
from pipeweave.workers.process.load import BUCKET_S, BUCKETS, READ_EVERY_S, LoadMeter


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(child_slots.time, "monotonic", clock)
    return clock


def a_child(slots: Slots, pid: int, place: int = 0) -> Slot:
    slot = slots.take(place, pid)
    assert slot is not None
    return slot


def call(slot: Slot, times: int = 1) -> None:
    run = ids.new_id()
    slot.begin(run, range(1, times + 1), 1)
    for ordinal in range(1, times + 1):
        slot.call(ids.task_run_id(run, ordinal), 0.0, 1.0)


def test_busy_children_and_the_last_message_are_counted(clock: Clock) -> None:
    slots = Slots(2)
    meter = LoadMeter(slots, clock, lambda pid: None)
    first, second = a_child(slots, 11), a_child(slots, 12, 1)
    nothing = meter.measure()
    assert (nothing.busy, nothing.since_fetch, nothing.rss_bytes) == (0, None, None)
    call(first)
    clock.now += 3
    call(second)
    second.end()
    clock.now += 2
    found = meter.measure()
    assert (found.busy, found.since_fetch) == (1, timedelta(seconds=2))


def test_calls_are_counted_for_an_hour_and_over_the_children(clock: Clock) -> None:
    slots = Slots(1)
    meter = LoadMeter(slots, clock, lambda pid: None)
    first = a_child(slots, 11)
    call(first, 5)
    assert meter.measure().starts_last_hour == 5
    first.free()
    call(a_child(slots, 12), 2)
    assert meter.measure().starts_last_hour == 7
    clock.now += BUCKET_S * (BUCKETS - 1)
    assert meter.measure().starts_last_hour == 7
    clock.now += BUCKET_S
    assert meter.measure().starts_last_hour == 0


def test_memory_is_summed_and_processor_time_is_a_share_of_one_processor(clock: Clock) -> None:
    used = {os.getpid(): ProcessUse(100, 50.0), 11: ProcessUse(20, 0.0)}
    slots = Slots(1)
    a_child(slots, 11)
    meter = LoadMeter(slots, clock, used.get)
    assert (meter.measure().rss_bytes, meter.measure().cpu_percent) == (120, None)
    clock.now += READ_EVERY_S
    used[os.getpid()], used[11] = ProcessUse(100, 51.0), ProcessUse(30, 1.5)
    found = meter.measure()
    assert (found.rss_bytes, found.cpu_percent) == (130, 50.0)


def test_a_new_child_does_not_look_like_a_burst_of_work(clock: Clock) -> None:
    used = {os.getpid(): ProcessUse(100, 50.0)}
    slots = Slots(1)
    meter = LoadMeter(slots, clock, used.get)
    meter.measure()
    clock.now += READ_EVERY_S
    a_child(slots, 11)
    used[11] = ProcessUse(20, 900.0)
    assert meter.measure().cpu_percent == 0.0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="there is no /proc")
def test_a_process_can_be_measured_and_one_that_is_gone_cannot() -> None:
    mine = use_of(os.getpid())
    assert mine is not None
    assert mine.rss_bytes > 1_000_000
    assert mine.cpu_s > 0
    assert use_of(2**22 + 1) is None
    assert load.READ_EVERY_S >= 1
