"""Doctor on tasks that no live worker has, on other code than is registered, and on queues nobody serves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver, claim

from pipeweave.orchestrator.diagnosis import check_processes, check_tasks
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_on
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.runs import pausing
from pipeweave.settings import Settings


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


@pytest.fixture
def settings(driver: RunDriver) -> Settings:
    return Settings(database_url=driver.database.url)


ALL = ("noop", "limited", "single")


def start_worker(driver: RunDriver, *tasks: object) -> str:
    with driver.database.transaction() as tx:
        return a_worker(tx, driver.tenant, *tasks)  # type: ignore[arg-type]


def make_old(driver: RunDriver) -> None:
    """As if nothing had happened for an hour."""
    driver.rows("UPDATE tasks SET updated_at = now() - interval '1 hour' RETURNING 1")
    driver.rows(
        "UPDATE workers SET stopped_at = stopped_at - interval '1 hour', started_at = started_at RETURNING 1"
    )


def test_tasks_without_a_worker_are_told_after_a_while(driver: RunDriver, settings: Settings) -> None:
    leaving = start_worker(driver, *ALL)
    assert check_tasks.loaded(settings).level is Severity.OK
    with driver.database.transaction() as tx:
        worker_processes.stop(tx, leaving)
    start_worker(driver, "noop", "limited")
    assert check_tasks.loaded(settings).level is Severity.OK, "workers may be on their way"
    make_old(driver)
    verdict = check_tasks.loaded(settings)
    assert verdict.level is Severity.WARNING
    assert f"no live worker has: single ({driver.tenant}) since " in verdict.line
    assert "pipeweave tasks remove" in str(verdict.hint)
    assert check_tasks.loaded(replace(settings, task_gone_after_seconds=7_200)).level is Severity.OK


def test_a_service_that_was_stopped_is_told_only_if_work_waits_for_it(
    driver: RunDriver, settings: Settings
) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "other", id="elsewhere")
        a_worker(tx, driver.tenant, "other", service="elsewhere")
    make_old(driver)
    assert check_tasks.loaded(settings).level is Severity.OK
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, 1)
        assert claimed is not None
        hand_on(tx, run_id, Unstarted([claimed]), worker="w1")
    verdict = check_tasks.loaded(settings)
    assert verdict.level is Severity.WARNING and "1 wait" in verdict.line


def test_a_worker_of_an_older_version_counts_as_one_that_has_everything(
    driver: RunDriver, settings: Settings
) -> None:
    start = worker_processes.WorkerStart("python", "w@host", "host", 1, 3)
    with driver.database.transaction() as tx:
        worker_processes.register(tx, driver.tenant, start)
    make_old(driver)
    assert check_tasks.loaded(settings).level is Severity.OK


def test_other_code_than_is_registered_is_told(driver: RunDriver, settings: Settings) -> None:
    start_worker(driver, *ALL)
    assert check_tasks.code(settings).line == "live workers have one version of each task"
    start_worker(driver, a_task("noop", "second"))
    assert "several versions of 1 tasks" in check_tasks.code(settings).line
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", "third"))
    verdict = check_tasks.code(settings)
    assert verdict.level is Severity.WARNING
    assert f"noop ({driver.tenant})" in verdict.line


def test_a_named_queue_without_a_worker_is_an_error(driver: RunDriver, settings: Settings) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("render", queue="gpu"))
    start_worker(driver, *ALL)
    driver.begin({"a": []})
    assert check_processes.queues(settings).level is Severity.OK
    driver.begin({"a": []}, id="rendered", tasks={"a": "render"})
    driver.trigger("rendered")
    verdict = check_processes.queues(settings)
    assert verdict.level is Severity.ERROR and ".python/gpu" in verdict.line
    start_worker(driver, a_task("render", queue="gpu"))
    assert check_processes.queues(settings).level is Severity.OK


def test_what_is_paused_is_told(driver: RunDriver, settings: Settings) -> None:
    assert check_tasks.paused(settings).line == "nothing is paused"
    run_id = driver.begin({"a": []})
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, run_id, by="ann"))
    driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, "noop"))
    verdict = check_tasks.paused(settings)
    assert verdict.level is Severity.OK
    assert "1 tasks or tenants are paused: see `pipeweave queue`; 1 runs are paused, prun_" in verdict.line
    assert verdict.line.endswith(" by ann for the longest time")
