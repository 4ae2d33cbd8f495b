"""A message under way, as two threads share it."""

from __future__ import annotations

from collections import deque
from typing import Any

from pipeweave.orchestrator.engine.hand_over import Unstarted
from pipeweave.workers.consumer.message import Work

# Neither is looked into here.
RUN: Any = object()
FIRST: Any = object()
SECOND: Any = object()
OUTCOME: Any = object()


def work() -> Work:
    return Work(RUN, attempt=2, left=deque([7, 8]), claimed=deque([FIRST, SECOND]))


def test_nothing_is_taken_beside_unless_a_call_is_under_way() -> None:
    """In between all of it is in the hands of the thread that works it off, which may be storing it."""
    mine = work()
    assert mine.take_during_call() is None
    mine.next()
    mine.record(OUTCOME)
    assert mine.take_during_call() is None
    assert mine.ended() == [OUTCOME]
    assert mine.take() == Unstarted([SECOND], [7, 8], 2)


def test_while_a_call_takes_long_another_thread_takes_the_rest_once() -> None:
    mine = work()
    mine.next()
    mine.record(OUTCOME)
    assert mine.next() is SECOND
    assert mine.take_during_call() == ([OUTCOME], Unstarted([], [7, 8], 2))
    assert mine.take_during_call() == ([], Unstarted([], [], 2))
    mine.record(OUTCOME)
    assert (mine.ended(), mine.next()) == ([OUTCOME], None)


def test_a_begun_task_run_is_not_handed_over() -> None:
    mine = work()
    assert mine.next() is FIRST
    assert mine.take_during_call() == ([], Unstarted([SECOND], [7, 8], 2))
