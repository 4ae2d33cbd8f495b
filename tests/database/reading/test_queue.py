"""The queue as the API reads it, and that no tenant sees what is another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline, a_task, all_pages, end, end_run, register
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest

TENANT = "query-tests"
OTHER = "query-tests-other"


@pytest.fixture
def run_id(tx: Transaction) -> UUID:
    """A run of the chain a, b: a is queued, b waits for it."""
    a_pipeline(tx, TENANT, "a", "b")
    return triggering.trigger(tx, VALUES, TENANT, StartRequest("chain", {"n": 1}, metadata={"who": "me"})).id


def test_the_queue_counts_pending_running_and_recently_ended_task_runs(tx: Transaction, run_id: UUID) -> None:
    tasks = [QueueRequest("a")] * 4
    alone = [ids.run_id_of(each.task_run_id) for each in standalone_tasks.enqueue(tx, VALUES, TENANT, tasks)]
    end(tx, alone[0], 1)
    end_run(tx, alone[0])
    end(tx, alone[1], 1, "timeout")
    end_run(tx, alone[1], "failed")
    tx.execute(
        "UPDATE task_runs SET status = 'running', started_at = :now, worker = 'w' WHERE run_id = :id",
        {"id": alone[2], "now": tx.now},
    )
    found = reading.queue_status(tx, TENANT)
    assert (found["pending"], found["running"], found["waiting"]) == (2, 1, 0), (
        "step b waits for a: not in the queue"
    )
    assert (found["completed"], found["failed"], found["dlq"]) == (1, 1, 0)
    assert found["oldestPending"].endswith("Z")
    counts = {status: each["count"] for status, each in found["statuses"].items() if each["count"]}
    assert counts == {"queued": 2, "running": 1, "completed": 1, "timeout": 1}
    assert all(found["statuses"][status]["oldest"].endswith("Z") for status in counts)
    assert not any(each["isCapped"] for each in found["statuses"].values())


def test_an_empty_queue_has_no_oldest(tx: Transaction) -> None:
    found = reading.queue_status(tx, "nobody")
    assert found["oldestPending"] is None
    assert {found[name] for name in ("pending", "running", "waiting", "completed", "failed", "dlq")} == {0}


def test_ended_task_runs_are_counted_up_to_a_cap(
    tx: Transaction, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a")] * 3):
        end(tx, ids.run_id_of(each.task_run_id), 1)
        end_run(tx, ids.run_id_of(each.task_run_id))
    monkeypatch.setattr("pipeweave.orchestrator.reading.queue.MOST_TASK_RUNS", 2)
    found = reading.queue_status(tx, TENANT)
    assert found["completed"] == 2
    assert found["statuses"]["completed"]["isCapped"] and not found["statuses"]["queued"]["isCapped"]


def test_queue_items_are_listed_by_priority_then_age(tx: Transaction) -> None:
    register(tx, TENANT, "a", a_task("b", concurrency=1))
    wishes = [QueueRequest("a", priority=5), QueueRequest("b", priority=1), QueueRequest("b", priority=9)]
    made = [
        ids.show(ids.TASK_RUN, each.task_run_id)
        for each in standalone_tasks.enqueue(tx, VALUES, TENANT, wishes)
    ]
    listed = all_pages(lambda page: reading.queue_items(tx, TENANT, page), 1)
    assert [each["id"] for each in listed] == [made[1], made[0], made[2]]
    assert listed[0]["waitMs"] >= 0 and listed[0]["runId"] is None


def test_queue_items_are_filtered(tx: Transaction, run_id: UUID) -> None:
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("b")])

    def found(**filters: Any) -> list[str]:
        return [each["taskId"] for each in reading.queue_items(tx, TENANT, PageRequest(), **filters)["items"]]

    assert found() == ["a", "b"]
    assert found(task_id="b") == ["b"]
    assert found(status="queued") == ["a", "b"]
    assert found(status="running") == []
    with pytest.raises(InvalidInput, match="status"):
        found(status="completed")


def test_another_tenants_things_are_not_there(tx: Transaction, run_id: UUID) -> None:
    first = ids.task_run_id(run_id, 1)
    page = PageRequest()
    reads: list[Callable[[], Any]] = [
        lambda: reading.service(tx, OTHER, "python"),
        lambda: reading.tasks(tx, OTHER, page, service_id="python"),
        lambda: reading.task(tx, OTHER, "a"),
        lambda: reading.task_history(tx, OTHER, "a", page),
        lambda: reading.input_schema(tx, OTHER, "a"),
        lambda: reading.pipeline(tx, OTHER, "chain"),
        lambda: reading.pipeline_versions(tx, OTHER, "chain", page),
        lambda: reading.run(tx, OTHER, run_id),
        lambda: reading.run_task_runs(tx, OTHER, run_id, page),
        lambda: reading.run_events(tx, OTHER, run_id, page),
        lambda: reading.task_run(tx, OTHER, first),
    ]
    for read in reads:
        with pytest.raises(NotFound):
            read()
    for listed in (
        reading.services,
        reading.tasks,
        reading.pipeline_list,
        reading.run_list,
        reading.queue_items,
    ):
        assert listed(tx, OTHER, page)["items"] == []
