"""Standalone tasks, one by one and in batches."""

from __future__ import annotations

from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.runs.standalone_tasks import Queued, QueueRequest
from pipeweave.size_limits import MAX_BATCH


def ended(stack: LiveStack, queued: Queued) -> Any:
    """The task run of a queued task once it is final."""
    run = stack.finished(ids.run_id_of(queued.task_run_id))
    assert run.pipeline_id is None
    (row,) = stack.task_runs(run.id)
    return row


def test_a_standalone_task_runs_with_its_input(stack: LiveStack) -> None:
    (queued,) = stack.enqueue(QueueRequest("numbers", {"count": 3}))
    row = ended(stack, queued)
    assert row.id == queued.task_run_id
    assert (row.status, row.output, row.task_id) == ("completed", [0, 1, 2], "numbers")
    assert stack.run(row.run_id).status == "completed"


def test_a_standalone_task_has_no_step(stack: LiveStack) -> None:
    (queued,) = stack.enqueue(QueueRequest("noop"))
    row = ended(stack, queued)
    assert row.output is None
    assert [call.step_id for call in stack.calls(row.run_id)] == [None]


def test_nothing_follows_a_standalone_task_that_chooses(stack: LiveStack) -> None:
    queued = stack.enqueue(*(QueueRequest("choosing", {"chosen": [each]}) for each in ("noop", "nope")))
    good, bad = (ended(stack, each) for each in queued)
    assert (good.status, good.output, good.selected_next) == ("completed", "chose", ["noop"])
    assert (bad.status, bad.error_code) == ("failed", "INVALID_NEXT_TASKS")


def test_a_batch_runs_every_task_once(stack: LiveStack) -> None:
    requests = [QueueRequest("numbers", {"count": n}) if n % 2 else QueueRequest("noop") for n in range(200)]
    queued = stack.enqueue(*requests)
    assert len({each.task_run_id for each in queued}) == 200
    assert [each.task_id for each in queued] == [each.task_id for each in requests]
    for number, each in enumerate(queued):
        row = ended(stack, each)
        assert row.status == "completed"
        assert row.output == (list(range(number)) if number % 2 else None)
    assert sum(len(stack.calls(ids.run_id_of(each.task_run_id))) for each in queued[::2]) == 100


def test_a_batch_with_an_unknown_task_queues_nothing(stack: LiveStack) -> None:
    before = stack.rows("SELECT count(*) FROM runs")
    with pytest.raises(NotFound, match="task 'nothing' not found") as caught:
        stack.enqueue(QueueRequest("noop"), QueueRequest("nothing"), QueueRequest("noop"))
    assert [error.field for error in caught.value.errors] == ["tasks[1].taskId"]
    assert stack.rows("SELECT count(*) FROM runs") == before


def test_a_batch_beyond_the_cap_queues_nothing(stack: LiveStack) -> None:
    before = stack.rows("SELECT count(*) FROM runs")
    with pytest.raises(LimitExceeded, match="1,001 tasks at once"):
        stack.enqueue(*[QueueRequest("noop")] * (MAX_BATCH + 1))
    assert stack.rows("SELECT count(*) FROM runs") == before


def test_a_standalone_task_that_fails_stores_its_attempt(stack: LiveStack) -> None:
    (queued,) = stack.enqueue(QueueRequest("misbehave", {"behaviour": "value-error"}))
    row = ended(stack, queued)
    assert (row.status, row.error_code) == ("failed", "ValueError")
    assert [each.error_code for each in stack.attempts(row.run_id)] == ["ValueError"]
    assert stack.run(row.run_id).status == "failed"


def test_a_standalone_task_has_no_successor_to_select(stack: LiveStack) -> None:
    (queued,) = stack.enqueue(QueueRequest("misbehave", {"behaviour": "unknown-next"}))
    assert ended(stack, queued).error_code == "INVALID_NEXT_TASKS"


def test_limited_standalone_tasks_all_end(stack: LiveStack) -> None:
    queued = stack.enqueue(*[QueueRequest("limited")] * 12)
    assert {ended(stack, each).status for each in queued} == {"completed"}
