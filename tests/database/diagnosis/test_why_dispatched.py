"""Why a task run of an HTTP service does not start, and what doctor says of such services."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.factories import register
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import check_processes, check_services, why
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.registry import instances, service_settings, worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.settings import Settings

URL = "http://10.0.0.7:3001"


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    with isolated_driver.database.transaction() as tx:
        register(tx, isolated_driver.tenant, "scale", id="resizer", kind="http", base_url=URL)
    isolated_driver.store({"a": []}, id="resize", tasks={"a": "scale"})
    return isolated_driver


@pytest.fixture
def settings(driver: RunDriver) -> Settings:
    return Settings(database_url=driver.database.url, secret_key="k" * 40)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    return driver.trigger("resize")


def ask(driver: RunDriver, run_id: UUID, *, is_serverless: bool = False) -> list[dict[str, Any]]:
    with driver.database.reading() as tx:
        waiting = dict.fromkeys(LEVELS, 0.0)
        task_run = ids.task_run_id(run_id, 1)
        return list(
            why.why(tx, driver.tenant, task_run, lambda _: waiting, is_serverless=is_serverless)["reasons"]
        )


def start_dispatcher(driver: RunDriver) -> str:
    """A worker process without an app, and so without a service."""
    queue = queue_names.dispatch_queue(driver.tenant)
    start = WorkerStart("dispatcher", "d@host", "host", 2, 0, queues=(queue,))
    return driver.database.run(lambda tx: worker_processes.register(tx, driver.tenant, start))


def set_aside(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        instances.set_aside(tx, driver.tenant, "resizer", URL, "it does not answer")


def test_nobody_dispatches(driver: RunDriver, run_id: UUID) -> None:
    first, queued = ask(driver, run_id)
    assert (first["code"], queued["code"]) == ("no_dispatcher", "queued")
    assert "`pipeweave dispatcher`" in first["text"]


def test_a_dispatcher_alone_is_enough(driver: RunDriver, run_id: UUID) -> None:
    start_dispatcher(driver)
    [queued] = ask(driver, run_id)
    assert (queued["code"], queued["workers"]) == ("queued", 1)


def test_in_a_serverless_deployment_the_tick_dispatches(driver: RunDriver, run_id: UUID) -> None:
    assert [each["code"] for each in ask(driver, run_id, is_serverless=True)] == ["queued"]


def test_no_instance_of_its_service_answers(driver: RunDriver, run_id: UUID) -> None:
    start_dispatcher(driver)
    set_aside(driver)
    away, _ = ask(driver, run_id)
    assert (away["code"], away["serviceId"], away["instances"]) == ("service_away", "resizer", 1)
    assert away["lastError"] == "it does not answer"
    assert away["text"].startswith(
        "service resizer has no instance that answers (last error: it does not answer)"
    )


def test_its_service_has_no_instance_with_its_task(driver: RunDriver, run_id: UUID) -> None:
    start_dispatcher(driver)
    with driver.database.transaction() as tx:
        instances.remove(tx, driver.tenant, "resizer", URL)
    away, _ = ask(driver, run_id)
    assert (away["code"], away["instances"]) == ("service_away", 0)
    assert "has no instance with task scale" in away["text"]


def test_its_service_is_switched_off(driver: RunDriver, run_id: UUID) -> None:
    start_dispatcher(driver)
    with driver.database.transaction() as tx:
        service_settings.change(tx, driver.tenant, "resizer", base_url=None, is_disabled=True)
    off, _ = ask(driver, run_id)
    assert off["code"] == "service_disabled"
    assert "`pipeweave services set resizer --enable`" in off["text"]


def test_the_task_of_a_service_is_never_said_to_be_loaded_by_nobody(driver: RunDriver, run_id: UUID) -> None:
    start_dispatcher(driver)
    set_aside(driver)
    assert "task_not_loaded" not in {each["code"] for each in ask(driver, run_id)}


# --- doctor -----------------------------------------------------------------------------------------------


def test_doctor_warns_of_a_service_of_which_no_instance_answers(
    driver: RunDriver, settings: Settings
) -> None:
    assert check_services.services(settings).line == "1 HTTP services, instances that take dispatches: 1"
    set_aside(driver)
    verdict = check_services.services(settings)
    assert verdict.level is Severity.WARNING
    assert verdict.line == f"no instance answers: resizer ({driver.tenant}), 1 set aside: it does not answer"


def test_a_service_that_is_switched_off_is_no_warning(driver: RunDriver, settings: Settings) -> None:
    set_aside(driver)
    with driver.database.transaction() as tx:
        service_settings.change(tx, driver.tenant, "resizer", base_url=None, is_disabled=True)
    verdict = check_services.services(settings)
    assert (verdict.level, "switched off: resizer" in verdict.line) == (Severity.OK, True)


def test_http_services_without_a_secret_key_are_an_error(settings: Settings) -> None:
    verdict = check_services.services(replace(settings, secret_key=None))
    assert (verdict.level, "PIPEWEAVE_SECRET_KEY is not set" in verdict.line) == (Severity.ERROR, True)


def test_a_queue_of_dispatches_needs_somebody_who_dispatches(
    driver: RunDriver, run_id: UUID, settings: Settings
) -> None:
    verdict = check_processes.queues(settings)
    assert (verdict.level, "`pipeweave dispatcher`" in str(verdict.hint)) == (Severity.ERROR, True)
    assert check_processes.queues(replace(settings, mode="serverless")).level is Severity.OK
    start_dispatcher(driver)
    assert check_processes.queues(settings).level is Severity.OK


def test_a_serverless_deployment_needs_no_worker(settings: Settings) -> None:
    assert check_processes.workers_alive(settings).level is Severity.WARNING
    assert check_processes.workers_alive(replace(settings, mode="serverless")).level is Severity.OK
