"""A database with storage, and transactions that are rolled back."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.patient_ticks import patient_ticks as patient_ticks
from support.run_driver import Clock, RunDriver

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.documents.base import AnswerModel
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.cache import Caches
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings


@pytest.fixture(autouse=True)
def checked_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test reads, each document that is made agrees with its class."""
    make = AnswerModel.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[AnswerModel], row: Any = None, /, **values: Any) -> dict[str, Any]:
        document: dict[str, Any] = make(cls, row, **values)
        cls.model_validate(document)
        return document

    monkeypatch.setattr(AnswerModel, "of", classmethod(of))


@pytest.fixture(scope="session")
def kept_database(database_url: str) -> Iterator[Database]:
    """Keeps the sessions of `database`: to open some for each test was a third of what most tests took."""
    opened = Database(database_url, react=reactions_to)
    yield opened
    opened.dispose()


@pytest.fixture
def database(kept_database: Database) -> Iterator[Database]:
    """The shared database: what is committed there needs names of its own."""
    opened = copy.copy(kept_database)
    opened.caches = Caches(opened.timeline)
    # As in a process that begins, the clock is read with the first statement. So nobody gets a session that
    # an earlier test has ended.
    opened._clock._read_at = float("-inf")
    yield opened
    opened.caches.close()


@pytest.fixture
def fresh_database(fresh_database_url: str) -> Iterator[Database]:
    """An empty database for this test alone."""
    opened = Database(fresh_database_url, react=reactions_to)
    yield opened
    opened.dispose()


@pytest.fixture
def publisher(fresh_broker_url: str) -> Iterator[Publisher]:
    """A publisher over an empty broker."""
    made = Publisher(make_celery(Settings(broker_url=fresh_broker_url)), clock=time.time)
    backend: Any = made.app.backend
    backend.client.flushdb()
    yield made
    backend.client.flushdb()
    made.close()


class RollBack(Exception):
    """Ends a test's transaction."""


@pytest.fixture
def tx(database: Database) -> Iterator[Transaction]:
    """A transaction that leaves nothing behind."""
    try:
        with database.transaction() as transaction:
            yield transaction
            raise RollBack
    except RollBack:
        pass


@pytest.fixture
def clock() -> Clock:
    """The clock of `isolated_driver`'s database."""
    return Clock()


@pytest.fixture
def isolated_driver(fresh_database: Database, clock: Clock) -> Iterator[RunDriver]:
    """Alone in its database: for what looks at all tenants."""
    database = Database(fresh_database.url, react=reactions_to, now=clock)
    yield RunDriver(database)
    database.dispose()
