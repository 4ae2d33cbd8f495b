"""Runs that wait."""

from __future__ import annotations

import pytest
from support.run_driver import RunDriver
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def runs(database: Database) -> WaitingRuns:
    """Of a tenant of its own."""
    return WaitingRuns(RunDriver(database))


@pytest.fixture
def isolated_runs(isolated_driver: RunDriver) -> WaitingRuns:
    """Alone in their database: for what looks at all tenants."""
    return WaitingRuns(isolated_driver)
