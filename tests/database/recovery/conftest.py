"""A deployment alone in its database, whose broker holds what a test says."""

from __future__ import annotations

import pytest
from support.empty_broker import NOWHERE, EmptyBroker
from support.run_driver import RunDriver

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.settings import Settings


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


@pytest.fixture
def broker() -> Publisher:
    return EmptyBroker()


@pytest.fixture
def deployment(driver: RunDriver, broker: Publisher) -> Deployment:
    settings = Settings(database_url=driver.database.url, broker_url=NOWHERE)
    return Deployment(settings, driver.database, driver.values, broker)
