"""A worker says each minute what it did."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pipeweave.workers.consumer.child_slots import Slots
from pipeweave.workers.process.minute_line import EVERY_S, MinuteLine


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The members of the lines so far."""
    return [vars(each) for each in caplog.records if each.message == "worker.metrics"]


def test_a_line_a_minute_with_runs_durations_and_the_error_rate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, slots = Clock(), Slots(2)
    first, second = slots.take(0, 11), slots.take(1, 12)
    assert first is not None and second is not None
    line = MinuteLine("w@host:1", slots.tally, clock)
    line.write_if_due()
    assert lines(caplog) == []
    first.count(3, 1, 1.5)
    second.count(1, 0, 0.5)
    clock.now += EVERY_S
    line.write_if_due()
    line.write_if_due()
    [found] = lines(caplog)
    assert (found["runs"], found["failed"], found["runs_per_minute"]) == (4, 1, 4.0)
    assert (found["mean_duration_ms"], found["error_rate"], found["uptime_s"]) == (500.0, 0.25, 60)
    second.count(1, 1, 2.0)
    clock.now += 2 * EVERY_S
    line.write_if_due()
    found = lines(caplog)[1]
    assert (found["runs"], found["failed"], found["runs_per_minute"]) == (5, 2, 0.5)
    assert (found["mean_duration_ms"], found["error_rate"]) == (2000.0, 1.0)
    clock.now += EVERY_S
    line.write_if_due()
    assert (lines(caplog)[2]["mean_duration_ms"], lines(caplog)[2]["error_rate"]) == (None, None)


def test_what_a_child_did_is_counted_when_it_is_gone() -> None:
    slots = Slots(1)
    slot = slots.take(0, 11)
    assert slot is not None
    slot.count(2, 1, 3.0)
    slot.free()
    again = slots.take(0, 12)
    assert again is not None
    again.end()
    again.count(1, 0, 1.0)
    done = slots.tally()
    assert (done.calls, done.failed, done.seconds) == (3, 1, 4.0)
