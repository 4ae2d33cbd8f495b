"""The gauges of open work say what the rows say."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from support.factories import a_pipeline, a_task, a_worker, register
from support.stored_values import VALUES

from pipeweave.orchestrator.metrics import machine, open_work, queues, zeros
from pipeweave.orchestrator.metrics.catalogue import (
    CELERY_QUEUE_DEPTH,
    CELERY_QUEUE_SLOTS,
    COUNT_CAPPED,
    DEAD_LETTERS,
    IN_PROGRESS,
    OPEN_RUNS,
    QUEUE_DEPTH,
    QUEUE_OLDEST,
    SCHEDULE_LAG,
    UNSERVED,
    WORKER_SLOTS,
    WORKERS,
    Family,
)
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction

TENANT, OTHER = "metrics-tests", "metrics-tests-other"
# Status -> the columns that a row of that status has, as SQL.
STATUSES = {
    "queued": "queued_at = :then",
    "ready": "queued_at = :then",
    "pending": "queued_at = NULL, due_at = :then",
    "running": "started_at = :then, worker = 'w@host'",
    "waiting": "started_at = :then",
    "completed": "finished_at = :then",
}


def mine(samples: Samples, family: Family) -> dict[tuple[str, ...], float]:
    """The values of a family for the tenants of this file."""
    return {labels: value for labels, value in samples.values[family].items() if labels[0] in (TENANT, OTHER)}


@pytest.fixture
def counted(tx: Transaction) -> Counter[tuple[str, str, str]]:
    """Task runs of two tenants, two tasks and every status: how many of each."""
    numbers: Counter[tuple[str, str, str]] = Counter()
    then = tx.now - timedelta(minutes=10)
    for tenant in (TENANT, OTHER):
        register(tx, tenant, "a", "b")
        for index, status in enumerate(STATUSES):
            for task, number in (("a", index + 1), ("b", 1)):
                made = standalone_tasks.enqueue(tx, VALUES, tenant, [QueueRequest(task)] * number)
                tx.execute(
                    f"UPDATE task_runs SET status = '{status}', {STATUSES[status]} WHERE id = ANY(:ids)",
                    {"ids": [each.task_run_id for each in made], "then": then},
                )
                numbers[tenant, task, status] += number
    return numbers


def test_task_runs_are_counted_by_task_and_status(
    tx: Transaction, counted: Counter[tuple[str, str, str]]
) -> None:
    found = open_work.task_runs(tx)
    found.merge(queues.read(tx))
    waiting = {labels: n for labels, n in counted.items() if labels[2] in ("queued", "ready", "pending")}
    assert mine(found, QUEUE_DEPTH) == waiting
    in_progress = {labels: n for labels, n in counted.items() if labels[2] in ("running", "waiting")}
    assert mine(found, IN_PROGRESS) == in_progress
    assert all(value == pytest.approx(600, abs=120) for value in mine(found, QUEUE_OLDEST).values())
    assert mine(found, QUEUE_OLDEST).keys() == waiting.keys()


@pytest.mark.usefixtures("counted")
def test_a_count_that_ends_at_its_bound_says_so(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(open_work._BOUNDS, "most", 2)
    found = open_work.task_runs(tx)
    assert found.values[QUEUE_DEPTH][TENANT, "a", "ready"] == 2
    assert found.values[COUNT_CAPPED]["ready",] == 1
    assert found.values[QUEUE_DEPTH][TENANT, "b", "ready"] == 1


def test_queues_have_the_slots_of_their_live_workers(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b", id="python")
    register(tx, TENANT, "c", id="other")
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a")] * 3 + [QueueRequest("c")])
    for name in ("one", "two"):
        a_worker(tx, TENANT, "a", "b", name=name)
    silent = a_worker(tx, TENANT, "a", "b", name="silent")
    leaving = a_worker(tx, TENANT, "a", "b", name="leaving")
    tx.execute(
        "UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 minute' WHERE id = :id", {"id": silent}
    )
    tx.execute("UPDATE workers SET stopping_at = now() WHERE id = :id", {"id": leaving})
    found = queues.read(tx)
    assert mine(found, WORKERS) == {
        (TENANT, "python", "running"): 2,
        (TENANT, "python", "crashed"): 1,
        (TENANT, "python", "draining"): 1,
    }
    assert mine(found, WORKER_SLOTS) == {(TENANT, "python"): 4}
    served, unserved = f"pipeweave.{TENANT}.python", f"pipeweave.{TENANT}.other"
    assert mine(found, CELERY_QUEUE_DEPTH) == {(TENANT, served): 3, (TENANT, unserved): 1}
    assert mine(found, CELERY_QUEUE_SLOTS) == {(TENANT, served): 4, (TENANT, unserved): 0}
    assert mine(found, UNSERVED) == {(TENANT, "a"): 0, (TENANT, "c"): 1}


def test_open_runs_are_counted_by_pipeline_also_the_paused_ones(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a", "b")
    runs = [triggering.trigger(tx, VALUES, TENANT, StartRequest("chain", {})).id for _ in range(4)]
    paused = runs[0]
    tx.execute("UPDATE runs SET status = 'paused' WHERE id = :id", {"id": paused})
    tx.execute(
        "INSERT INTO run_pauses (run_id, tenant_id, paused_at) VALUES (:id, :tenant, now())",
        {"id": paused, "tenant": TENANT},
    )
    tx.execute("UPDATE runs SET status = 'completed', finished_at = now() WHERE id = :id", {"id": runs[1]})
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a")])
    assert mine(open_work.runs(tx), OPEN_RUNS) == {
        (TENANT, "chain", "running"): 2,
        (TENANT, "chain", "paused"): 1,
        (TENANT, "", "running"): 1,
    }


_LETTER = """
INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, code_version, code_hash,
    attempts, error, error_code, fingerprint, failed_at, discarded_at)
VALUES (:id, :tenant, :id, :id, 's', :task, 1, repeat('0', 64), 1, '{}', 'BOOM', repeat('1', 64), now(),
    :discarded)
"""


def test_open_dead_letters_are_counted_by_task(tx: Transaction) -> None:
    register(tx, TENANT, "a")
    register(tx, OTHER, "a")
    given: list[tuple[str, str, Any]] = [
        (TENANT, "a", None),
        (TENANT, "a", None),
        (TENANT, "b", None),
        (TENANT, "b", tx.now),
        (OTHER, "a", None),
    ]
    for tenant, task, discarded in given:
        parameters = {"id": tx.new_id(), "tenant": tenant, "task": task, "discarded": discarded}
        tx.execute(_LETTER, parameters)
    found = mine(open_work.dead_letters(tx), DEAD_LETTERS)
    assert found == {(TENANT, "a"): 2, (TENANT, "b"): 1, (OTHER, "a"): 1}


def test_the_lag_of_schedules_is_that_of_the_most_overdue_one(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "a")
    a_pipeline(tx, OTHER, "a")
    for tenant, id, minutes in ((TENANT, "late", -3), (TENANT, "later", -5), (OTHER, "coming", 5)):
        tx.execute(
            """INSERT INTO schedules (tenant_id, id, pipeline_id, every_ms, time_zone, enabled, created_at,
                updated_at, next_fire_at)
            VALUES (:tenant, :id, 'chain', 60000, 'UTC', true, now(), now(),
                now() + :minutes * interval '1 minute')""",
            {"tenant": tenant, "id": id, "minutes": minutes},
        )
    made = machine.schedules(tx)
    made.first["tenant", ""] = (TENANT, OTHER)
    zeros.fill(made, ["schedules"])
    found = mine(made, SCHEDULE_LAG)
    assert found[TENANT,] == pytest.approx(300, abs=60)
    assert found[OTHER,] == 0


def test_of_all_sets_of_labels_only_those_are_told_that_something_requires(tx: Transaction) -> None:
    gpu, eu = {"gpu": "a100"}, {"zone": "eu"}
    register(tx, TENANT, a_task("a", requires=gpu), a_task("b", requires=eu), "c")
    standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("a"), QueueRequest("b")])
    a_worker(tx, TENANT, "a", "b", "c", labels={**gpu, "arch": "arm"})
    found, base = queues.read(tx), f"pipeweave.{TENANT}.python"
    depth = {(TENANT, base): 0, (TENANT, f"{base}+gpu=a100"): 1, (TENANT, f"{base}+zone=eu"): 1}
    assert mine(found, CELERY_QUEUE_DEPTH) == depth
    assert mine(found, CELERY_QUEUE_SLOTS)[TENANT, f"{base}+gpu=a100"] == 2
    assert mine(found, UNSERVED) == {(TENANT, "a"): 0, (TENANT, "b"): 1}
