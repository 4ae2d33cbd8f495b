"""A driver whose clock the test moves on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.run_driver import Clock, RunDriver

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(database_url: str, clock: Clock) -> Iterator[RunDriver]:
    database = Database(database_url, react=reactions_to, now=clock)
    yield RunDriver(database)
    database.dispose()
