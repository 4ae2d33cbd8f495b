"""A database whose months are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.retired_months import IN_MARCH, ArchivingDatabase, Clock

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.retention import drop_months, partitions
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage.local import LocalStorage


@pytest.fixture
def clock() -> Clock:
    """The clock of the database: the second of May 2031, until the test sets it."""
    return Clock()


@pytest.fixture
def database(fresh_database: Database, clock: Clock, tmp_path: Path) -> Iterator[ArchivingDatabase]:
    """An empty database in May with partitions from March on."""
    opened = ArchivingDatabase(fresh_database.url, react=reactions_to, now=clock)
    opened.archives = LocalStorage(tmp_path / "archives")
    with opened.transaction() as tx:
        # The months in which this test runs are long past there.
        for each in partitions.list_partitions(tx):
            if each.month is not None:
                tx.execute(f"DROP TABLE {each.name}")
        partitions.ensure(tx, IN_MARCH, months_ahead=4)
    yield opened
    opened.dispose()


@pytest.fixture
def storage(database: ArchivingDatabase) -> LocalStorage:
    """Where the archives go: a folder of this test."""
    return database.archives


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables in use are asked for once, not for minutes."""
    monkeypatch.setattr(drop_months, "TRIES", 1)
    monkeypatch.setattr(drop_months, "PAUSE_S", 0.01)
