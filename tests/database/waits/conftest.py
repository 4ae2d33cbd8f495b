"""Runs that wait."""

from __future__ import annotations

import pytest
from support.run_driver import RunDriver
from support.suspended_runs import SuspendedRuns
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


@pytest.fixture
def suspended(database: Database) -> SuspendedRuns:
    """Of a tenant of its own."""
    return SuspendedRuns(RunDriver(database))


@pytest.fixture
def isolated_suspended(isolated_driver: RunDriver) -> SuspendedRuns:
    """Alone in their database: for what looks at all tenants."""
    return SuspendedRuns(isolated_driver)
