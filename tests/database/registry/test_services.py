"""What a service may register, and what becomes of its tasks."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.factories import a_pipeline, a_service, a_task, a_worker, register
from support.stored_values import VALUES

from pipeweave.authoring.retry import RetryPolicy
from pipeweave.errors import Conflict, InvalidId, NotFound, TaskOwnedElsewhere
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import task_rows, tenants, worker_processes
from pipeweave.orchestrator.registry.registration import Registration
from pipeweave.orchestrator.runs import service_registration, standalone_tasks, task_removal, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest

TENANT = "registry-tests"


def history(tx: Transaction, task_id: str) -> list[tuple[int, str]]:
    found = reading.task_history(tx, TENANT, task_id, PageRequest())["items"]
    return [(each["codeVersion"], each["serviceVersion"]) for each in found]


def version_of(tx: Transaction, task_id: str) -> int:
    return task_rows.tasks(tx, TENANT, [task_id])[task_id].code_version


# --- what is stored ---------------------------------------------------------------------------------------


def test_a_new_task_has_version_1_and_a_line_of_history(tx: Transaction) -> None:
    done = register(tx, TENANT, "count")
    assert done.code_changes == [] and done.orphaned_tasks == []
    assert history(tx, "count") == [(1, "1.0.0")]


def test_a_task_is_stored_with_all_its_options(tx: Transaction) -> None:
    options: dict[str, Any] = {
        "allowed_next": ["other"],
        "timeout": 1.5,
        "retries": 4,
        "retry_backoff": "fixed",
        "retry_delay_ms": 7,
        "max_retry_delay_ms": 8,
        "retry_multiplier": 1.5,
        "retry_jitter": 0.25,
        "retry_on": ["TIMEOUT", "HTTP_503", "TIMEOUT"],
        "heartbeat_interval_ms": 9,
        "concurrency": 2,
        "rate_limit": "100/m",
        "priority": -5,
        "idempotency_ttl": 11,
        "description": "counts",
        "input_schema": {"fields": [{"name": "n", "type": "number", "label": "N"}]},
    }
    register(tx, TENANT, a_task("count", **options))
    row = task_rows.tasks(tx, TENANT, ["count"])["count"]
    assert row.max_attempts == 5, "four retries are five attempts"
    assert row.queue == f"pipeweave.{TENANT}.python"
    assert (row.timeout_seconds, row.retry_backoff, row.retry_delay_ms) == (1.5, "fixed", 7)
    assert (row.max_retry_delay_ms, row.heartbeat_interval_ms) == (8, 9)
    assert (row.retry_multiplier, row.retry_jitter, row.retry_on) == (1.5, 0.25, ["HTTP_503", "TIMEOUT"])
    assert (row.rate_limit, row.rate_seconds) == (100, 60)
    assert (row.concurrency, row.priority, row.idempotency_ttl_seconds) == (2, -5, 11)
    assert (row.allowed_next, row.description) == (["other"], "counts")
    assert row.input_schema == options["input_schema"]


def test_a_tasks_retry_policy_is_capped_by_the_operator(tx: Transaction) -> None:
    register(tx, TENANT, a_task("count", retry_delay_ms=100, retry_on=["BUSY"]), a_task("plain"))
    rows = task_rows.tasks(tx, TENANT, ["count", "plain"])
    policy = task_rows.policy_of(rows["count"], 300)
    assert [policy.delay_ms(attempt, 0) for attempt in (1, 2, 3)] == [100, 200, 300]
    assert not policy.may_retry("OTHER", is_retryable=True)
    assert task_rows.policy_of(rows["plain"]) == RetryPolicy("exponential", 1_000, 86_400_000)


def test_the_order_of_retry_codes_makes_no_difference(tx: Transaction) -> None:
    register(tx, TENANT, a_task("count", retry_on=["A", "B"]))
    before = tx.execute("SELECT xmin, ctid FROM tasks WHERE tenant_id = :t", {"t": TENANT}).one()
    register(tx, TENANT, a_task("count", retry_on=["B", "A", "B"]))
    assert tx.execute("SELECT xmin, ctid FROM tasks WHERE tenant_id = :t", {"t": TENANT}).one() == before


def test_a_changed_rate_begins_afresh_and_the_same_one_goes_on(tx: Transaction) -> None:
    def rate_at(description: str, rate: str | None) -> Any:
        register(tx, TENANT, a_task("count", description=description, rate_limit=rate))
        return tx.execute("SELECT rate_at FROM tasks WHERE tenant_id = :t", {"t": TENANT}).scalar_one()

    assert rate_at("first", "1/h") is None
    tx.execute("UPDATE tasks SET rate_at = :now WHERE tenant_id = :t", {"now": tx.now, "t": TENANT})
    assert rate_at("second", "1/h") == tx.now
    assert rate_at("third", "100/s") is None


def test_tasks_that_are_not_registered_are_left_out(tx: Transaction) -> None:
    register(tx, TENANT, "count")
    assert set(task_rows.tasks(tx, TENANT, ["count", "nothing"])) == {"count"}
    assert task_rows.tasks(tx, "another-tenant", ["count"]) == {}


def test_a_tenant_is_made_when_it_is_first_named(tx: Transaction) -> None:
    tenants.ensure_tenant(tx, "never-seen")
    tenants.ensure_tenant(tx, "never-seen")
    assert tx.execute("SELECT count(*) FROM tenants WHERE id = 'never-seen'").scalar_one() == 1


@pytest.mark.parametrize("tenant", ["", "a b", "ä", "x" * 201, "a/b"])
def test_a_tenant_that_is_no_id_is_refused(tx: Transaction, tenant: str) -> None:
    with pytest.raises(InvalidId):
        tenants.ensure_tenant(tx, tenant)


# --- code versions ----------------------------------------------------------------------------------------


def test_changed_code_raises_the_version_and_is_told(
    tx: Transaction, caplog: pytest.LogCaptureFixture
) -> None:
    register(tx, TENANT, a_task("count", "first"))
    with caplog.at_level(logging.WARNING):
        done = register(tx, TENANT, a_task("count", "second"))
    (change,) = done.code_changes
    assert (change.task_id, change.old_version, change.new_version) == ("count", 1, 2)
    assert change.old_hash != change.new_hash
    assert done.to_json()["codeChanges"][0] == {
        "taskId": "count",
        "oldHash": change.old_hash,
        "newHash": change.new_hash,
        "oldVersion": 1,
        "newVersion": 2,
    }
    assert "task.code_changed" in caplog.messages


def test_going_back_to_old_code_counts_up_too(tx: Transaction) -> None:
    for code in ("first", "second", "first"):
        register(tx, TENANT, a_task("count", code))
    assert version_of(tx, "count") == 3
    assert [number for number, _ in history(tx, "count")] == [3, 2, 1]


def test_changed_options_keep_the_code_version(tx: Transaction) -> None:
    register(tx, TENANT, a_task("count", timeout=10))
    done = register(tx, TENANT, a_task("count", timeout=20))
    row = task_rows.tasks(tx, TENANT, ["count"])["count"]
    assert (row.code_version, row.timeout_seconds, done.code_changes) == (1, 20, [])


def test_registering_the_same_again_writes_only_the_heartbeat(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report")
    before = tx.execute(
        "SELECT id, ctid::text, xmin::text FROM tasks WHERE tenant_id = :t", {"t": TENANT}
    ).all()
    register(tx, TENANT, "count", "report")
    after = tx.execute(
        "SELECT id, ctid::text, xmin::text FROM tasks WHERE tenant_id = :t", {"t": TENANT}
    ).all()
    assert sorted(after) == sorted(before), "no row was written anew"
    assert len(history(tx, "count")) == 1


# --- owners -----------------------------------------------------------------------------------------------


def test_a_task_of_an_active_service_cannot_be_taken(tx: Transaction) -> None:
    register(tx, TENANT, "count", id="one")
    with pytest.raises(TaskOwnedElsewhere) as refused:
        register(tx, TENANT, "other", "count", id="two")
    assert "'one'" in str(refused.value)
    assert [error.field for error in refused.value.errors] == ["tasks[1].id"]


def test_a_service_with_live_workers_cannot_become_an_http_service(tx: Transaction) -> None:
    register(tx, TENANT, "count", id="one")
    http = Registration("one", "2", kind="http", base_url="http://localhost:9")
    with pytest.raises(TaskOwnedElsewhere, match="Celery workers") as refused:
        service_registration.register(tx, TENANT, http)
    assert [error.field for error in refused.value.errors] == ["serviceId"]
    tx.execute("UPDATE services SET status = 'inactive' WHERE tenant_id = :t", {"t": TENANT})
    assert service_registration.register(tx, TENANT, http).orphaned_tasks == ["count"]


def test_the_same_task_id_in_another_tenant_is_another_task(tx: Transaction) -> None:
    register(tx, TENANT, "count", id="one")
    register(tx, f"{TENANT}-2", "count", id="two")
    assert task_rows.tasks(tx, f"{TENANT}-2", ["count"])["count"].service_id == "two"


@pytest.mark.parametrize("status", ["inactive", "disconnected"])
def test_a_task_of_a_service_that_is_gone_may_be_taken(
    tx: Transaction, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    register(tx, TENANT, "count", id="one")
    tx.execute("UPDATE services SET status = :status WHERE tenant_id = :t", {"status": status, "t": TENANT})
    with caplog.at_level(logging.WARNING):
        register(tx, TENANT, "count", id="two")
    assert task_rows.tasks(tx, TENANT, ["count"])["count"].service_id == "two"
    assert "task.taken_over" in caplog.messages


def test_a_task_that_no_live_worker_of_its_service_has_may_be_taken(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report", id="one")
    worker = a_worker(tx, TENANT, "count", "report", service="one")
    with pytest.raises(TaskOwnedElsewhere):
        register(tx, TENANT, "count", id="two")
    a_worker(tx, TENANT, "report", service="one")
    worker_processes.stop(tx, worker)
    register(tx, TENANT, "count", id="two")
    row = task_rows.tasks(tx, TENANT, ["count"])["count"]
    assert (row.service_id, row.orphaned_at) == ("two", None)


def test_only_a_worker_says_what_a_service_with_live_workers_has(tx: Transaction) -> None:
    register(tx, TENANT, "count")
    worker = a_worker(tx, TENANT, "count")
    changed = a_service(a_task("count", "forged"), version="2")
    with pytest.raises(TaskOwnedElsewhere, match="Celery workers"):
        service_registration.register(tx, TENANT, changed)
    assert version_of(tx, "count") == 1
    service_registration.register(tx, TENANT, changed, by_worker=True)
    worker_processes.stop(tx, worker)
    register(tx, TENANT, a_task("count", "third"))
    assert version_of(tx, "count") == 3


def test_a_python_service_without_workers_is_inactive_and_active_again_with_one(tx: Transaction) -> None:
    register(tx, TENANT, "count")
    start = worker_processes.WorkerStart("python", "w@host", "host", 1, 1)
    worker_processes.stop(tx, worker_processes.register(tx, TENANT, start))
    assert reading.service(tx, TENANT, "python")["status"] == "inactive"
    register(tx, TENANT, "count")
    assert reading.service(tx, TENANT, "python")["status"] == "active"


# --- removed tasks ----------------------------------------------------------------------------------------


def test_no_worker_takes_a_task_away_that_it_does_not_name(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report", version="1")
    assert register(tx, TENANT, "report", version="2").orphaned_tasks == []
    assert task_rows.tasks(tx, TENANT, ["count"])["count"].orphaned_at is None


def test_with_the_same_version_an_http_service_keeps_a_task_that_it_does_not_name(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report", version="1", kind="http")
    assert register(tx, TENANT, "report", version="1", kind="http").orphaned_tasks == []
    assert task_rows.tasks(tx, TENANT, ["count"])["count"].orphaned_at is None


def test_another_version_of_an_http_service_removes_a_task_that_it_does_not_name(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report", version="1", kind="http")
    assert register(tx, TENANT, "report", version="2", kind="http").orphaned_tasks == ["count"]
    assert task_rows.tasks(tx, TENANT, ["count"])["count"].orphaned_at is not None


def test_a_removed_task_that_comes_back_is_there_and_keeps_its_version(tx: Transaction) -> None:
    register(tx, TENANT, "count", "report")
    task_removal.remove(tx, TENANT, "count")
    register(tx, TENANT, "count", "report")
    row = task_rows.tasks(tx, TENANT, ["count"])["count"]
    assert (row.orphaned_at, row.code_version) == (None, 1)


def test_other_services_tasks_are_not_removed(tx: Transaction) -> None:
    register(tx, TENANT, "mine", id="one", version="1", kind="http")
    register(tx, TENANT, "theirs", id="two", version="1")
    assert register(tx, TENANT, "mine", id="one", version="2", kind="http").orphaned_tasks == []


def test_unstarted_task_runs_of_a_removed_task_are_cancelled_with_the_reason(tx: Transaction) -> None:
    a_pipeline(tx, TENANT, "first", "gone")
    register(tx, TENANT, "first", "gone", "alone")
    run = triggering.trigger(tx, VALUES, TENANT, StartRequest("chain"))
    (alone,) = standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("alone")])
    assert task_removal.remove(tx, TENANT, "gone", reason="we print no more").cancelled == 1
    assert task_removal.remove(tx, TENANT, "alone").cancelled == 1
    standalone = reading.task_run(tx, TENANT, alone.task_run_id)
    assert standalone["status"] == "cancelled"
    assert "task 'alone' was removed" in str(standalone["error"])
    steps = {each["stepId"]: each for each in reading.run(tx, TENANT, run.id)["taskRuns"]}
    assert (steps["gone"]["status"], steps["gone"]["errorCode"]) == ("cancelled", "TASK_REMOVED")
    assert "task 'gone' was removed: we print no more" in str(steps["gone"]["error"])


def test_a_task_that_a_live_worker_has_is_not_removed(tx: Transaction) -> None:
    register(tx, TENANT, "count")
    worker = a_worker(tx, TENANT, "count")
    with pytest.raises(Conflict, match="live worker has task 'count'"):
        task_removal.remove(tx, TENANT, "count")
    worker_processes.stop(tx, worker)
    assert task_removal.remove(tx, TENANT, "count").cancelled == 0
    with pytest.raises(NotFound):
        task_removal.remove(tx, TENANT, "nothing")


# --- many processes at once -------------------------------------------------------------------------------


def test_processes_that_start_together_agree_on_one_version(database: Database) -> None:
    tenant = "registry-together"
    barrier = threading.Barrier(4)
    found: list[int] = []

    def start() -> None:
        own = Database(database.url, pool_size=0)
        barrier.wait(60)
        with own.transaction() as tx:
            found.append(
                len(
                    service_registration.register(
                        tx, tenant, a_service(a_task("count", "second"))
                    ).code_changes
                )
            )

    with database.transaction() as tx:
        service_registration.register(tx, tenant, a_service(a_task("count", "first")))
    threads = [threading.Thread(target=start) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(found) == [0, 0, 0, 1], "one of them saw the change"
    with database.transaction() as tx:
        assert task_rows.tasks(tx, tenant, ["count"])["count"].code_version == 2


def test_a_second_registration_waits_for_the_first_and_is_refused_a_task_it_took(database: Database) -> None:
    tenant = "registry-waits"
    refused: list[TaskOwnedElsewhere] = []

    def second() -> None:
        own = Database(database.url, pool_size=0)
        try:
            with own.transaction() as tx:
                service_registration.register(tx, tenant, a_service("count", id="two"))
        except TaskOwnedElsewhere as error:
            refused.append(error)

    with database.transaction() as tx:
        service_registration.register(tx, tenant, a_service("count", id="one"))
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and not refused
    thread.join(60)
    assert len(refused) == 1


def test_tasks_are_locked_in_the_order_of_their_names_when_one_is_orphaned(database: Database) -> None:
    """Whoever fills the limits of both locks them in this order: it and a registration would deadlock."""
    tenant = "registry-locks"
    lock = "SELECT 1 FROM tasks WHERE tenant_id = :tenant AND id = :id FOR NO KEY UPDATE NOWAIT"
    with database.transaction() as tx:
        register(tx, tenant, a_task("kept", "first"), "orphaned", version="1", kind="http")

    def register_without_one() -> list[str]:
        with Database(database.url, pool_size=0).transaction() as tx:
            return register(tx, tenant, a_task("kept", "second"), version="2", kind="http").orphaned_tasks

    with database.transaction() as tx:
        tx.execute(lock, {"tenant": tenant, "id": "kept"})
        registration = BackgroundCall(register_without_one)
        registration.__enter__()
        wait_for_lock(database)
        tx.execute(lock, {"tenant": tenant, "id": "orphaned"})
    assert registration.result == ["orphaned"]
