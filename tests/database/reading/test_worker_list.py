"""The list of workers: their states, and what they say of their load."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.factories import a_chain, a_worker, register
from support.stored_values import VALUES

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading import PageRequest
from pipeweave.orchestrator.reading.worker_list import STALLED_AFTER, STATES
from pipeweave.orchestrator.registry import WorkerLoad, pipelines, worker_processes
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Transaction

TENANT = "worker-list-tests"
IDLE = WorkerLoad(0, timedelta(minutes=5), 50 * 2**20, 12.34, 1_200)


@pytest.fixture
def worker(tx: Transaction) -> str:
    register(tx, TENANT, "count")
    return a_worker(tx, TENANT, "count")


def listed(tx: Transaction, **filters: Any) -> list[dict[str, Any]]:
    return list(reading.workers(tx, TENANT, PageRequest(), **filters)["items"])


def aged(tx: Transaction, statement: str, **parameters: Any) -> None:
    tx.execute(statement, {"tenant": TENANT, "age": 2 * STALLED_AFTER, **parameters})


def queue_one(tx: Transaction) -> None:
    """A queued task run that has waited for longer than a worker may let it."""
    pipelines.store(tx, TENANT, a_chain("count"), source="api")
    triggering.trigger(tx, VALUES, TENANT, triggering.StartRequest("chain", {}))
    aged(
        tx,
        "UPDATE task_runs SET queued_at = now() - CAST(:age AS interval) WHERE tenant_id = :tenant"
        " AND status = 'queued'",
    )


def test_a_heartbeat_brings_the_load(tx: Transaction, worker: str) -> None:
    worker_processes.beat(tx, worker, load=IDLE)
    [found] = listed(tx)
    assert (found["state"], found["busy"], found["places"]) == ("running", 0, 2)
    assert (found["rssBytes"], found["cpuPercent"], found["startsLastHour"]) == (50 * 2**20, 12.3, 1_200)
    assert found["lastFetchAt"] < found["heartbeatAt"]
    worker_processes.beat(tx, worker)
    assert listed(tx)[0]["startsLastHour"] == 1_200


def test_a_worker_is_stalled_when_work_waits_that_it_could_take(tx: Transaction, worker: str) -> None:
    worker_processes.beat(tx, worker, load=IDLE)
    queue_one(tx)
    assert listed(tx)[0]["state"] == "stalled"
    assert [each["id"] for each in listed(tx, state="stalled")] == [worker]
    assert listed(tx, state="running") == []
    tx.execute(
        "INSERT INTO pauses (tenant_id, task_id, paused_at) VALUES (:t, 'count', now())", {"t": TENANT}
    )
    assert listed(tx)[0]["state"] == "running", "what is paused waits for no worker"


@pytest.mark.parametrize(
    "load",
    [
        WorkerLoad(2, timedelta(minutes=5), None, None, 0),
        WorkerLoad(1, timedelta(seconds=1), None, None, 0),
    ],
)
def test_a_worker_that_is_full_or_took_something_just_now_is_not_stalled(
    tx: Transaction, worker: str, load: WorkerLoad
) -> None:
    worker_processes.beat(tx, worker, load=load)
    queue_one(tx)
    assert listed(tx)[0]["state"] == "running"


def test_stopped_and_crashed_are_told_apart_and_stand_behind_those_that_live(
    tx: Transaction, worker: str
) -> None:
    stopped, lost, silent = (a_worker(tx, TENANT, "count", name=name) for name in ("a", "b", "c"))
    worker_processes.stop(tx, stopped, now=tx.now - STALLED_AFTER)
    aged(
        tx,
        "UPDATE workers SET heartbeat_at = now() - CAST(:age AS interval),"
        " suspected_at = now() - interval '9 s' WHERE id = ANY(:ids)",
        ids=[lost],
    )
    assert [each.id for each in worker_processes.mark_lost(tx)] == [lost]
    aged(tx, "UPDATE workers SET heartbeat_at = now() - CAST(:age AS interval) WHERE id = :id", id=silent)
    states = {each["id"]: (each["state"], each["lostAt"] is not None) for each in listed(tx)}
    assert states == {
        worker: ("running", False),
        stopped: ("stopped", False),
        lost: ("crashed", True),
        silent: ("crashed", False),
    }
    assert [each["id"] for each in listed(tx)] == [silent, worker, lost, stopped]
    assert reading.worker_counts(tx, TENANT) == {
        **dict.fromkeys(STATES, 0),
        "running": 1,
        "stopped": 1,
        "crashed": 2,
    }


def test_pages_follow_each_other_and_filters_hold(tx: Transaction, worker: str) -> None:
    made = {worker, *(a_worker(tx, TENANT, "count", name=f"w{number}") for number in range(4))}
    seen: list[str] = []
    cursor = None
    while True:
        page = reading.workers(tx, TENANT, PageRequest(2, cursor), service_id="python")
        seen += [each["id"] for each in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert (len(seen), set(seen)) == (5, made)
    assert listed(tx, service_id="nothing") == []
    assert reading.workers(tx, "another-tenant", PageRequest())["items"] == []


def test_a_worker_shows_what_it_runs(tx: Transaction, worker: str) -> None:
    queue_one(tx)
    tx.execute(
        "UPDATE task_runs SET status = 'running', started_at = now(), worker = :child"
        " WHERE tenant_id = :tenant",
        {"child": worker_processes.child_of(worker, 4711), "tenant": TENANT},
    )
    found = reading.worker(tx, TENANT, worker)
    assert found["tasks"] == ["count"]
    [running] = found["taskRuns"]
    assert (running["taskId"], running["pipelineId"], running["attempt"]) == ("count", "chain", 1)


def test_a_worker_tells_its_labels_and_not_a_queue_for_each_set_of_them(tx: Transaction, worker: str) -> None:
    labels = {"gpu": "a100", "zone": "eu"}
    labelled = a_worker(tx, TENANT, "count", name="labelled", labels=labels)
    found = {each["id"]: each for each in listed(tx)}
    assert found[worker]["labels"] == {} and found[labelled]["labels"] == labels
    assert found[labelled]["queues"] == found[worker]["queues"]
