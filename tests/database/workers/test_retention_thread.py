"""Beat's thread applies the retention, and says what stood in its way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.aged_rows import past_run
from support.servers import wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import drop_months as verb
from pipeweave.orchestrator.retention import month_status, partitions
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage.local import LocalStorage
from pipeweave.workers.process import retention_thread

LONG_AGO = datetime.now(UTC).replace(day=15) - timedelta(days=400)
MONTH = Month.of(LONG_AGO)
POLICY = Policy(timedelta(days=30))


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


def test_without_a_retention_there_is_no_thread() -> None:
    assert retention_thread.start(Settings(database_url="postgresql://nobody@127.0.0.1:1/none")) is None


def test_the_thread_drops_due_months(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(retention_thread, "FIRST_AFTER_S", 0.0)
    settings = Settings(database_url=database.url, run_retention_days=30, data_dir=str(tmp_path))
    thread = retention_thread.start(settings)
    assert thread is not None
    assert thread.daemon, "beat would not end"
    wait_until(lambda: not is_there(database))
    assert (tmp_path / "storage/archive/runs" / str(MONTH) / "manifest.json").exists()


def test_a_pass_that_did_its_work_comes_again_in_an_hour(database: Database, storage: LocalStorage) -> None:
    assert retention_thread.apply(database, storage, POLICY) == retention_thread.EVERY_S
    assert not is_there(database)


def test_a_table_in_use_is_tried_again_soon(database: Database, storage: LocalStorage) -> None:
    with database.transaction() as reader:
        reader.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        reader.execute("SELECT count(*) FROM runs")
        assert retention_thread.apply(database, storage, POLICY) == retention_thread.AGAIN_AFTER_S
    assert is_there(database)


def test_storage_that_is_away_keeps_the_month_and_the_thread(
    database: Database,
    storage: LocalStorage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("the bucket is away")

    monkeypatch.setattr(LocalStorage, "put", refuse)
    assert retention_thread.apply(database, storage, POLICY) == retention_thread.AGAIN_AFTER_S
    assert is_there(database)
    assert "retention.failed" in caplog.text


def test_a_mistake_of_ours_does_not_end_the_thread(
    database: Database,
    storage: LocalStorage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(verb, "run_once", lambda *_: 1 / 0)
    assert retention_thread.apply(database, storage, POLICY) == retention_thread.EVERY_S
    assert "ZeroDivisionError" in caplog.text


def test_a_wrong_clock_drops_nothing(
    database: Database, storage: LocalStorage, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL's clock decides what is old; the clock of this host says that it is wrong."""
    ahead = Database(database.url, now=lambda: datetime.now(UTC) + timedelta(days=3650))
    retention_thread.apply(ahead, storage, POLICY)
    ahead.dispose()
    assert is_there(database)
    assert "retention.failed" in caplog.text
