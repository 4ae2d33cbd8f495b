"""What the tick does with tasks that no worker had for a stated time."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from support.factories import a_worker
from support.run_driver import RunDriver

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.messaging import Publisher, make_celery
from pipeweave.orchestrator.recovery import task_removals
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.settings import Settings


def removed(driver: RunDriver) -> set[str]:
    found = driver.rows(
        "SELECT id FROM tasks WHERE tenant_id = :id AND orphaned_at IS NOT NULL", id=driver.tenant
    )
    return {row.id for row in found}


def test_a_task_is_removed_when_nobody_had_it_for_that_long_and_its_work_is_cancelled(
    driver: RunDriver,
) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        leaving = a_worker(tx, driver.tenant, "noop", "limited", "single")
        a_worker(tx, driver.tenant, "limited", "single")
        worker_processes.stop(tx, leaving)
    assert task_removals.remove_gone(driver.database, timedelta(hours=1)) == 0
    driver.rows("UPDATE workers SET stopped_at = stopped_at - interval '2 hours' RETURNING 1")
    assert task_removals.remove_gone(driver.database, timedelta(hours=1)) == 1
    assert removed(driver) == {"noop"}
    [row] = driver.task_runs(run_id)
    assert (row.status, row.error_code) == ("cancelled", "TASK_REMOVED")
    assert row.error["message"] == "task 'noop' was removed: no worker had it for 3,600 s"
    assert task_removals.remove_gone(driver.database, timedelta(hours=1)) == 0


def test_without_the_setting_no_task_is_removed(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.rows("UPDATE tasks SET updated_at = now() - interval '9 years' RETURNING 1")
    settings = Settings(database_url=driver.database.url, broker_url="memory://")
    publisher = Publisher(make_celery(settings), clock=time.time)
    for after, count in ((None, 0), (60, 3)):
        chosen = Settings(
            database_url=driver.database.url, broker_url="memory://", task_removed_after_seconds=after
        )
        deployment = Deployment(chosen, driver.database, driver.values, publisher)
        assert task_removals.run_once(deployment) == count


def test_rows_of_workers_are_kept_for_as_long_as_they_are_needed() -> None:
    assert Policy.of(Settings()).workers == timedelta(days=31)
    month = Settings(task_removed_after_seconds=30 * 86_400)
    assert Policy.of(month).workers == timedelta(days=31)
