"""Children that are replaced, or die with nothing to do: no message is lost with them, and no run waits."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from uuid import UUID

import psutil
import pytest
from support.live_stack import LiveStack, StackMaker

# Messages after which a child is replaced.
MOST = 10
# A run that takes so many times as long as the others, and so many seconds, waited for something.
TIMES_AS_LONG = 20
SLOW_S = 1.5
# What is younger than that is not yet missed by the tick.
AHEAD = timedelta(seconds=30)

SINGLE = {"id": "single", "steps": [{"id": "only", "task": "noop"}]}
FAN_IN = {
    "id": "fan-in",
    "steps": [
        *({"id": f"part{number}", "task": "noop"} for number in range(60)),
        {"id": "all", "task": "noop", "needs": [f"part{number}" for number in range(60)]},
    ],
}


@pytest.fixture
def stack(make_stack: StackMaker, tmp_path: Path) -> Iterator[LiveStack]:
    """Without a beat: whoever loses a message loses it for good."""
    with make_stack(tmp_path) as own:
        own.settings = replace(own.settings, max_tasks_per_child=MOST)
        yield own


def children(worker: int) -> list[int]:
    """The process ids of a worker's children."""
    return [each.pid for each in psutil.Process(worker).children()]


def took(stack: LiveStack, pipeline_id: str) -> float:
    """Run a pipeline to its end; the seconds that it took by PostgreSQL's clock."""
    row = stack.finished(stack.trigger(pipeline_id))
    assert row.status == "completed"
    return float((row.finished_at - row.created_at).total_seconds())


def stalled(times: list[float]) -> list[float]:
    """The times of the runs that waited for something."""
    return [each for each in times if each > max(SLOW_S, TIMES_AS_LONG * median(times))]


def waits_for_messages(stack: LiveStack) -> bool:
    """Whether a worker of this stack has asked its broker for a message, and has none yet."""
    database = str(stack.redis.connection_pool.connection_kwargs["db"])
    return any("b" in each["flags"] and each["db"] == database for each in stack.redis.client_list())


def assert_nothing_was_lost(stack: LiveStack) -> None:
    """Each task run was called once, at its first attempt, and the tick finds nothing to mend."""
    assert stack.rows("SELECT id FROM task_runs WHERE attempt <> 1 OR status <> 'completed'") == []
    assert stack.rows("SELECT task_run_id FROM attempts WHERE status <> 'completed'") == []
    ticked = stack.tick(AHEAD)
    assert (ticked.republished, ticked.joins_checked, ticked.attempts_ended) == (0, 0, 0)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_run_waits_for_a_child_that_is_replaced(stack: LiveStack, concurrency: int) -> None:
    stack.start_worker("steps.py", concurrency=concurrency)
    stack.store(SINGLE)
    stack.finished(stack.trigger("single"))
    times = [took(stack, "single") for _ in range(25 * MOST)]
    pids = {call.pid for call in stack.every_call()}
    assert len(pids) >= 8
    # Without care, each tenth run waits for up to five seconds.
    assert len(stalled(times)) <= 2
    assert_nothing_was_lost(stack)


def test_a_crowd_of_runs_loses_no_message_to_the_children_that_are_replaced(stack: LiveStack) -> None:
    worker = stack.start_worker("steps.py", concurrency=4)
    stack.store(SINGLE)
    stack.store(FAN_IN)
    runs = [stack.trigger("fan-in" if number % 50 == 0 else "single") for number in range(400)]
    for run_id in runs:
        assert stack.finished(run_id).status == "completed"
    assert_nothing_was_lost(stack)
    calls = Counter((call.run_id, call.step_id) for call in stack.every_call())
    assert set(calls.values()) == {1}
    assert len({call.pid for call in stack.every_call()}) > 8
    stack.until(lambda: len(children(worker)) == 4, "the worker has not as many children as before")


def test_a_child_works_on_until_its_successor_is_there(stack: LiveStack) -> None:
    worker = stack.start_worker("steps.py", concurrency=2)
    stack.store(SINGLE)
    stack.finished(stack.trigger("single"))
    fewest = 2
    runs: list[UUID] = []
    until = time.monotonic() + 120
    while len({call.pid for call in stack.every_call()}) < 8 and time.monotonic() < until:
        runs += [stack.trigger("single") for _ in range(4)]
        fewest = min(fewest, len(children(worker)))
        stack.finished(runs[-1])
    assert fewest == 2


def test_a_child_that_is_killed_while_idle_holds_nobody_up(stack: LiveStack) -> None:
    worker = stack.start_worker("steps.py", concurrency=1)
    stack.store(SINGLE)
    times = []
    for _ in range(12):
        times.append(took(stack, "single"))
        [child] = children(worker)
        os.kill(child, signal.SIGKILL)
        stack.until(lambda gone=child: gone not in children(worker), "the child is still there")
    # A death that nobody notices costs up to five seconds.
    assert len(stalled(times)) <= 1
    assert_nothing_was_lost(stack)


def test_a_message_that_a_child_dies_with_before_it_claims_is_given_to_the_next(stack: LiveStack) -> None:
    worker = stack.start_worker("steps.py", concurrency=1)
    stack.store(SINGLE)
    assert stack.finished(stack.trigger("single")).status == "completed"
    # It asks for the next message when its only child has worked off the one before.
    stack.until(lambda: waits_for_messages(stack), "the worker does not ask for messages")
    [child] = children(worker)
    os.kill(child, signal.SIGSTOP)
    run_id = stack.trigger("single")
    stack.until(lambda: stack.deployment.publisher.depth(stack.queue()) == 0, "the message was not taken")
    os.kill(child, signal.SIGKILL)
    assert stack.finished(run_id).status == "completed"
    assert_nothing_was_lost(stack)
