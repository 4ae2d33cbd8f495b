"""The loop of retention applies the policy, and says what stood in its way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.aged_rows import past_run
from support.servers import wait_until
from support.stored_values import values_in

from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import drop_months as verb
from pipeweave.orchestrator.retention import month_status, partitions
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage.local import LocalStorage
from pipeweave.workers.loops import retention
from pipeweave.workers.loops.table import LOOPS, Loops

LONG_AGO = datetime.now(UTC).replace(day=15) - timedelta(days=400)
MONTH = Month.of(LONG_AGO)


@pytest.fixture
def database(fresh_database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """One run of last year."""
    monkeypatch.setattr(verb, "TRIES", 1)
    with fresh_database.transaction() as tx:
        partitions.ensure(tx, LONG_AGO, months_ahead=0)
        past_run(tx, LONG_AGO)
    return fresh_database


def is_there(database: Database) -> bool:
    with database.transaction() as tx:
        return MONTH in [each.month for each in month_status.months_on_disk(tx)]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "archives")


@pytest.fixture
def deployment(database: Database, storage: LocalStorage) -> Iterator[Deployment]:
    """One whose history is kept for a month."""
    settings = Settings(database_url=database.url, run_retention_days=30, mode="serverless")
    opened = Deployment.open(settings)
    yield replace(opened, values=values_in(storage))
    opened.close()


def turn(deployment: Deployment) -> float:
    once = retention.turns(deployment)
    assert once is not None
    return once(threading.Event())


def test_without_a_retention_there_are_no_turns(deployment: Deployment) -> None:
    assert retention.turns(replace(deployment, settings=Settings())) is None


def test_the_loop_drops_due_months(database: Database, deployment: Deployment, tmp_path: Path) -> None:
    [spec] = [each for each in LOOPS if each.name == "retention"]
    loops = Loops(deployment, specs=[replace(spec, first_after_s=0.0)])
    with loops:
        wait_until(lambda: not is_there(database))
    assert (tmp_path / "archives/archive/runs" / str(MONTH) / "manifest.json").exists()


def test_a_pass_that_did_its_work_comes_again_in_an_hour(database: Database, deployment: Deployment) -> None:
    assert turn(deployment) == retention.EVERY_S
    assert not is_there(database)


def test_a_table_in_use_is_tried_again_soon(database: Database, deployment: Deployment) -> None:
    with database.transaction() as reader:
        reader.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        reader.execute("SELECT count(*) FROM runs")
        assert turn(deployment) == retention.AGAIN_AFTER_S
    assert is_there(database)


def test_storage_that_is_away_keeps_the_month(
    database: Database, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("the bucket is away")

    monkeypatch.setattr(LocalStorage, "put", refuse)
    with pytest.raises(Unavailable):
        turn(deployment)
    assert is_there(database)


def test_a_wrong_clock_drops_nothing(database: Database, deployment: Deployment) -> None:
    """PostgreSQL's clock decides what is old; the clock of this host says that it is wrong."""
    ahead = Database(database.url, now=lambda: datetime.now(UTC) + timedelta(days=3650))
    with pytest.raises(Conflict):
        turn(replace(deployment, database=ahead))
    ahead.dispose()
    assert is_there(database)
