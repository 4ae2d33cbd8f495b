"""Runs of documents that say what documents of other tools say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.run_driver import RunDriver
from support.stubbed_runs import StoppedClock, StubbedRuns

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def runs(database_url: str) -> Iterator[StubbedRuns]:
    """Of a tenant of its own, with a clock of its own."""
    clock = StoppedClock()
    database = Database(database_url, react=reactions_to, now=clock)
    yield StubbedRuns(RunDriver(database), clock)
    database.dispose()
