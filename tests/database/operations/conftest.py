"""A tenant whose runs an inline worker carries out."""

from __future__ import annotations

import pytest
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """A tenant of its own in the shared database."""
    return RunDriver(database)


@pytest.fixture
def worker(driver: RunDriver) -> InlineWorker:
    """A worker and a broker of the tenant, in the test's own thread."""
    return InlineWorker(driver)
