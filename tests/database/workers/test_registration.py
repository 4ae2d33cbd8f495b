"""What a worker process stores of its app when it starts."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.run_driver import RunDriver

from pipeweave import pipeline, task
from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.registry import WorkerStart
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.spec import parse_spec
from pipeweave.workers.process.launch import register


@task
def registered_with_a_schedule() -> int:
    return 1


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process forget the pipelines of a test."""
    monkeypatch.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})


def loaded(schedule: str | None, *documents: dict[str, Any]) -> Loaded:
    @pipeline(schedule=schedule)
    def scheduled_by_code() -> int:
        return registered_with_a_schedule()

    found = [(scheduled_by_code.spec, "decorator"), *((parse_spec(each), "document") for each in documents)]
    return Loaded({"registered_with_a_schedule": registered_with_a_schedule}, found)


def start(driver: RunDriver, publisher: Publisher, app: Loaded) -> str:
    settings = Settings(tenant=driver.tenant)
    deployment = Deployment(settings, driver.database, driver.values, publisher=publisher)
    return register(deployment, "python", app, WorkerStart("python", "w@host", "host", 1, 1))


def schedules(driver: RunDriver) -> list[tuple[str, str, bool]]:
    found = driver.rows("SELECT * FROM schedules WHERE tenant_id = :t ORDER BY id", t=driver.tenant)
    return [(each.id, each.source, each.withdrawn_at is None) for each in found]


def test_the_start_of_a_worker_stores_and_withdraws_what_its_pipelines_declare(
    database: Database, publisher: Publisher
) -> None:
    driver = RunDriver(database)
    document = {
        "id": "by-document",
        "steps": [{"task": "registered_with_a_schedule"}],
        "schedule": "0 0 1 1 *",
    }
    assert start(driver, publisher, loaded("0 0 1 1 *", document))
    assert schedules(driver) == [("by-document", "document", True), ("scheduled_by_code", "code", True)]
    start(driver, publisher, loaded(None, {**document, "schedule": None}))
    assert schedules(driver) == [("by-document", "document", False), ("scheduled_by_code", "code", False)]


def test_a_worker_whose_app_is_refused_stores_no_schedule(database: Database, publisher: Publisher) -> None:
    driver = RunDriver(database)
    wrong = {"id": "wrong", "steps": [{"task": "nobody-has-it"}]}
    with pytest.raises(InvalidSpec):
        start(driver, publisher, loaded("0 0 1 1 *", wrong))
    assert schedules(driver) == []
