"""The average duration of a task's calls is stored when it has changed much, and once."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.messaging.batching import MAX_SHORT_CHUNK
from pipeweave.orchestrator.store.statements import MANY_NAMES
from pipeweave.workers.consumer.call_durations import CallDurations


def test_an_average_is_given_until_it_is_stored() -> None:
    durations = CallDurations()
    assert durations.changed() is None
    durations.record("tenant", "task", 2.0)
    usual = durations.changed()
    assert usual is not None
    assert durations.changed() == usual, "its write failed"
    durations.stored(usual)
    assert durations.changed() is None


def test_only_an_average_that_is_far_from_the_stored_one_is_given() -> None:
    durations = CallDurations()
    durations.record("tenant", "task", 2.0)
    first = durations.changed()
    assert first is not None
    durations.stored(first)
    durations.record("tenant", "task", 2.1)
    assert durations.changed() is None
    durations.record("tenant", "task", 60.0)
    found = durations.changed()
    assert found is not None
    assert found.seconds > 3


def test_the_calls_of_each_task_have_an_average_of_their_own() -> None:
    durations = CallDurations()
    assert durations.usual("tenant", "short") is None
    for _ in range(3):
        durations.record("tenant", "short", 0.001)
        durations.record("tenant", "long", 2.0)
    assert durations.usual("tenant", "short") == pytest.approx(0.001)
    assert durations.usual("other", "short") is None
    assert durations.fitting(0.1) == 1, "the last call was long"


def test_a_message_of_short_calls_is_one_turn() -> None:
    durations = CallDurations()
    durations.record("tenant", "task", 0.0001)
    assert MAX_SHORT_CHUNK <= durations.fitting(0.1) <= MANY_NAMES
