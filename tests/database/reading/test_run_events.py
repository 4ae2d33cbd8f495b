"""Pages of events never skip one, however transactions that write them overlap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import UUID

import pytest
from support.run_driver import RunDriver

from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.reading import PageRequest, run_events
from pipeweave.orchestrator.store import event_log
from pipeweave.orchestrator.store.database import Database, Transaction


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    return driver.begin({"a": []})


@pytest.fixture
def other(driver: RunDriver) -> Iterator[Database]:
    """Another process."""
    opened = Database(driver.database.url, pool_size=1)
    yield opened
    opened.dispose()


def seen(driver: RunDriver, run_id: UUID, *, type: str | None = None) -> list[str]:
    with driver.database.reading() as tx:
        return [
            item["type"] for item in run_events(tx, driver.tenant, run_id, PageRequest(), type=type)["items"]
        ]


def append(tx: Transaction, run_id: UUID, type: str) -> None:
    event_log.append(tx, [Event(run_id, type)])


@contextmanager
def open_event(database: Database, run_id: UUID, type: str) -> Iterator[None]:
    """For the block an event is written and not committed."""
    with database.transaction() as tx:
        append(tx, run_id, type)
        yield


def write(driver: RunDriver, run_id: UUID, type: str) -> None:
    with driver.database.transaction() as tx:
        append(tx, run_id, type)


def test_an_event_is_not_shown_while_one_with_a_lower_number_may_come(
    driver: RunDriver, run_id: UUID, other: Database
) -> None:
    before = seen(driver, run_id)
    with open_event(other, run_id, "test.first"):
        write(driver, run_id, "test.second")
        assert seen(driver, run_id) == before
        assert seen(driver, run_id, type="test.second") == []
    assert seen(driver, run_id) == [*before, "test.first", "test.second"]


def test_a_reader_that_goes_on_after_the_last_number_misses_nothing(
    driver: RunDriver, run_id: UUID, other: Database
) -> None:
    with driver.database.reading() as tx:
        last = run_events(tx, driver.tenant, run_id, PageRequest())["items"][-1]["seq"]
    found: list[str] = []

    def follow() -> None:
        nonlocal last
        with driver.database.reading() as tx:
            items = run_events(tx, driver.tenant, run_id, PageRequest())["items"]
        new = [item for item in items if item["seq"] > last]
        found.extend(item["type"] for item in new)
        last = new[-1]["seq"] if new else last

    with open_event(other, run_id, "test.first"):
        write(driver, run_id, "test.second")
        follow()
    follow()
    assert found == ["test.first", "test.second"]


def test_events_from_before_an_open_transaction_are_shown(
    driver: RunDriver, run_id: UUID, other: Database
) -> None:
    write(driver, run_id, "test.first")
    with open_event(other, run_id, "test.second"):
        assert seen(driver, run_id)[-1] == "test.first"


def test_transactions_that_write_no_event_hide_none(driver: RunDriver, run_id: UUID, other: Database) -> None:
    with other.transaction() as tx:
        tx.execute("SELECT 1 FROM runs WHERE id = :id FOR UPDATE", {"id": run_id})
        write(driver, run_id, "test.first")
        assert seen(driver, run_id)[-1] == "test.first"


def test_an_event_that_was_rolled_back_hides_none(driver: RunDriver, run_id: UUID, other: Database) -> None:
    with pytest.raises(RuntimeError), open_event(other, run_id, "test.first"):
        write(driver, run_id, "test.second")
        raise RuntimeError("the process is asked to stop")
    assert seen(driver, run_id)[-1] == "test.second"


def test_a_page_waits_for_a_transaction_that_ends_soon(
    driver: RunDriver, run_id: UUID, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        stack.enter_context(open_event(other, run_id, "test.first"))
        write(driver, run_id, "test.second")
        # It ends between two looks.
        monkeypatch.setattr(time, "sleep", lambda seconds: stack.close())
        assert seen(driver, run_id)[-2:] == ["test.first", "test.second"]


def test_events_of_the_version_before_are_shown(driver: RunDriver, run_id: UUID) -> None:
    before = seen(driver, run_id)
    driver.rows("UPDATE events SET written_at = NULL WHERE run_id = :id RETURNING 1", id=run_id)
    assert seen(driver, run_id) == before
