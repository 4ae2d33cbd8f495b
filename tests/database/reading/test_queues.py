"""The list of queues: what waits in them, who serves them, and how fast they empty."""

from __future__ import annotations

import pytest
from support.factories import a_chain, a_task, a_worker, register
from support.stored_values import VALUES

from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry import drains, pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

TENANT = "queue-list-tests"


@pytest.fixture
def service(tx: Transaction) -> str:
    """A service with a task in its own queue and one in `gpu`; the full name of its queue."""
    register(tx, TENANT, "count", a_task("render", queue="gpu"))
    pipelines.store(tx, TENANT, a_chain("count"), source="api")
    return queue_names.service_queue(TENANT, "python")


def listed(tx: Transaction) -> dict[str, Document]:
    return {each["queue"]: each for each in reading.queues(tx, TENANT, PageRequest())["items"]}


def trigger(tx: Transaction, times: int = 1) -> None:
    for _ in range(times):
        triggering.trigger(tx, VALUES, TENANT, triggering.StartRequest("chain", {}))


def test_queues_of_registered_tasks_are_listed_also_while_they_are_empty(
    tx: Transaction, service: str
) -> None:
    found = listed(tx)
    assert set(found) == {service, f"{service}/gpu"}
    own, gpu = found[service], found[f"{service}/gpu"]
    assert (own["kind"], own["serviceId"], own["name"]) == ("tasks", "python", "default")
    assert (gpu["name"], gpu["queued"], gpu["workers"], gpu["emptyInMs"]) == ("gpu", 0, 0, 0.0)


def test_what_waits_and_who_serves_it_is_counted(tx: Transaction, service: str) -> None:
    worker = a_worker(tx, TENANT, "count")
    trigger(tx, 3)
    tx.execute(
        "UPDATE task_runs SET queued_at = now() - interval '2 minutes' WHERE tenant_id = :tenant"
        " AND run_id = (SELECT min(CAST(run_id AS text))::uuid FROM task_runs WHERE tenant_id = :tenant)",
        {"tenant": TENANT},
    )
    found = listed(tx)[service]
    assert (found["queued"], found["isCapped"], found["workers"], found["places"]) == (3, False, 1, 2)
    assert found["oldestWaitMs"] == pytest.approx(120_000, abs=5_000)
    assert (found["inPerMinute"], found["outPerMinute"], found["emptyInMs"]) == (2.0, 0.0, None)
    drains.drain(tx, TENANT, worker)
    assert listed(tx)[service]["workers"] == 0, "one that drains takes nothing"


def test_statistics_say_how_fast_it_empties(tx: Transaction, service: str) -> None:
    trigger(tx, 2)
    tx.execute(
        "UPDATE task_runs SET queued_at = now() - interval '2 minutes' WHERE tenant_id = :tenant",
        {"tenant": TENANT},
    )
    tx.execute(
        """INSERT INTO task_stats (tenant_id, scope, id, grain, at, completed, cached, failed, timed_out,
            lost, interrupted, cancelled, retried, again, dead, dead_timed_out, redriven, codes, took,
            took_sum, wait, wait_sum)
        VALUES (:tenant, 'task', 'count', 'minute', date_trunc('minute', now()) - interval '2 minutes', 18, 0,
            2, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', 0, '{}', 0)""",
        {"tenant": TENANT},
    )
    found = listed(tx)[service]
    assert (found["outPerMinute"], found["inPerMinute"]) == (4.0, 0.0)
    assert found["emptyInMs"] == 30_000


def test_what_no_worker_has_waits_in_a_queue_of_its_own(tx: Transaction, service: str) -> None:
    trigger(tx)
    parking = f"{service}#waiting#count"
    tx.execute(
        "UPDATE task_runs SET queue = :queue WHERE tenant_id = :tenant", {"queue": parking, "tenant": TENANT}
    )
    found = listed(tx)[parking]
    assert (found["kind"], found["name"], found["queued"]) == ("parking", "count", 1)


def test_nobody_sees_what_is_anothers(tx: Transaction, service: str) -> None:
    trigger(tx)
    assert reading.queues(tx, "another-tenant", PageRequest())["items"] == []
    assert reading.queues(tx, "queue-list-test", PageRequest())["items"] == [], (
        "a name that only begins alike"
    )


# --- pages, and one queue ---------------------------------------------------------------------------------


def test_queues_come_page_by_page_the_longest_first(tx: Transaction, service: str) -> None:
    register(tx, TENANT, a_task("a", queue="a"), a_task("b", queue="b"), id="other")
    trigger(tx, 2)
    names, page = [], PageRequest(1)
    while True:
        found = reading.queues(tx, TENANT, page)
        names += [each["name"] for each in found["items"]]
        if found["nextCursor"] is None:
            break
        page = PageRequest(1, found["nextCursor"])
    assert names[0] == "default"
    assert sorted(names[1:]) == names[1:]
    assert len(names) == len(set(names)) == len(reading.queues(tx, TENANT, PageRequest())["items"])


def test_one_queue_says_what_waits_and_who_serves_it(tx: Transaction, service: str) -> None:
    worker = a_worker(tx, TENANT, "count")
    trigger(tx, 3)
    found = reading.queue_detail(tx, TENANT, service)
    assert (found["queued"], found["name"]) == (3, "default")
    [task] = found["tasks"]
    assert (task["taskId"], task["queued"]) == ("count", 3)
    assert [each["queued"] for each in found["priorities"]] == [3]
    assert [(each["id"], each["isDraining"]) for each in found["servedBy"]] == [(str(worker), False)]


def test_a_queue_of_another_tenant_is_not_there(tx: Transaction, service: str) -> None:
    with pytest.raises(NotFound):
        reading.queue_detail(tx, "another-tenant", service)


def test_queues_of_labels_are_listed_where_something_requires_them(tx: Transaction, service: str) -> None:
    a_worker(tx, TENANT, "count", labels={"zone": "eu", "gpu": "a100"})
    assert set(listed(tx)) == {service, f"{service}/gpu"}
    register(tx, TENANT, "count", a_task("render", queue="gpu", requires={"zone": "eu"}))
    request = triggering.StartRequest("chain", {}, requires={"gpu": "a100", "zone": "eu"})
    triggering.trigger(tx, VALUES, TENANT, request)
    found = listed(tx)
    assert set(found) == {service, f"{service}/gpu+zone=eu", f"{service}+gpu=a100+zone=eu"}
    both = found[f"{service}+gpu=a100+zone=eu"]
    assert (both["kind"], both["serviceId"], both["name"]) == ("tasks", "python", "default+gpu=a100+zone=eu")
    assert (both["queued"], both["workers"]) == (1, 1)
