"""Why a task run waits although workers live: none of them has its task, or serves its queue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver, claim

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_on
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.registry import drains, worker_processes


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


def ask(driver: RunDriver, run_id: UUID) -> list[dict[str, Any]]:
    with driver.database.reading() as tx:
        waiting = dict.fromkeys(LEVELS, 0.0)
        return list(why.why(tx, driver.tenant, ids.task_run_id(run_id, 1), lambda _: waiting)["reasons"])


def park(driver: RunDriver, run_id: UUID) -> None:
    """A worker that has not loaded the task claims it."""
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, 1)
        assert claimed is not None
        hand_on(tx, run_id, Unstarted([claimed]), worker="w1")


def start_worker(driver: RunDriver, *tasks: Any) -> str:
    with driver.database.transaction() as tx:
        return a_worker(tx, driver.tenant, *tasks)


def test_it_waits_for_a_worker_that_has_its_task_whether_it_was_parked_or_not(driver: RunDriver) -> None:
    start_worker(driver, "single")
    run_id = driver.begin({"a": []})
    first, *more = ask(driver, run_id)
    assert (first["code"], [each["code"] for each in more]) == ("task_not_loaded", ["queued"])
    park(driver, run_id)
    [reason] = ask(driver, run_id)
    assert reason["code"] == "task_not_loaded"
    assert reason["text"].startswith("no live worker has task noop: it waits for one;")
    assert "pipeweave tasks remove" in reason["text"]
    assert (reason["taskId"], reason["codeVersion"], reason["lastSeen"]) == ("noop", None, None)


def test_the_reason_says_since_when_no_worker_has_the_task(driver: RunDriver) -> None:
    leaving = start_worker(driver, "noop")
    start_worker(driver, "single")
    run_id = driver.begin({"a": []})
    assert [each["code"] for each in ask(driver, run_id)] == ["queued"]
    with driver.database.transaction() as tx:
        worker_processes.stop(tx, leaving)
    park(driver, run_id)
    [reason] = ask(driver, run_id)
    assert reason["lastSeen"] is not None
    assert f"since {reason['lastSeen']}" in reason["text"]


def test_the_reason_says_that_the_only_workers_with_the_task_drain(driver: RunDriver) -> None:
    worker = start_worker(driver, "noop")
    run_id = driver.begin({"a": []})
    driver.database.run(lambda tx: drains.drain(tx, driver.tenant, worker))
    park(driver, run_id)
    [reason] = ask(driver, run_id)
    assert reason["code"] == "task_not_loaded"
    assert reason["text"].startswith("the workers that have task noop drain or stop, and take nothing more")
    start_worker(driver, "noop")
    assert "drain" not in ask(driver, run_id)[0]["text"]


def test_a_pinned_run_names_the_code_version_that_it_waits_for(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, code="pinned")
    new = a_task("noop", "second")
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, new)
    start_worker(driver, new)
    park(driver, run_id)
    [reason] = ask(driver, run_id)
    assert reason["codeVersion"] == 1
    assert "in code version 1, to which its run is pinned" in reason["text"]


def test_nobody_serves_the_queue_of_its_task(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("render", queue="gpu"))
    start_worker(driver, "noop")
    run_id = driver.begin({"a": []}, tasks={"a": "render"})
    first = ask(driver, run_id)[0]
    assert first["code"] == "no_worker"
    assert first["queue"].endswith(".python/gpu")
    start_worker(driver, a_task("render", queue="gpu"))
    assert [each["code"] for each in ask(driver, run_id)] == ["queued"]
