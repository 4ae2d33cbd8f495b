"""A run that is put off starts once, when requests of its key are quiet, with the last input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.starts.enqueued import debouncing, rows
from pipeweave.orchestrator.starts.enqueued.debouncing import Debounce
from pipeweave.orchestrator.store.database import Database, Transaction

SOON = timedelta(minutes=5)


@pytest.fixture
def driver(fresh_database: Database) -> Iterator[RunDriver]:
    made = RunDriver(fresh_database)
    made.store({"a": []}, id="one")
    yield made


def put_off(
    driver: RunDriver, input: Any, key: str = "k", wait: timedelta = SOON, longest: timedelta = SOON * 2
) -> Any:
    request = StartRequest("one", input, triggered_by=TriggeredBy(actor="ann"))
    times = Debounce(key, wait, longest)
    return driver.database.run(lambda tx: debouncing.put_off(tx, driver.tenant, request, times))


def make_due(driver: RunDriver) -> None:
    """Let the time pass: to wait for it would make the test slow."""
    with driver.database.transaction() as tx:
        tx.execute("UPDATE enqueued_runs SET due_at = now() - interval '1 second'")


def start(driver: RunDriver) -> int:
    return enqueued.run_once(driver.database, VALUES)


def inputs(driver: RunDriver) -> list[Any]:
    return [row.input for row in driver.rows("SELECT input FROM runs ORDER BY id")]


def test_requests_of_one_key_are_one_run_with_the_last_input(driver: RunDriver) -> None:
    answers = [put_off(driver, each) for each in (1, 2, 3)]
    assert len({each.id for each in answers}) == 1
    assert [each.requests for each in answers] == [1, 2, 3]
    assert start(driver) == 0, "it is not quiet yet"
    make_due(driver)
    assert start(driver) == 1
    assert inputs(driver) == [3]
    [run] = driver.rows("SELECT id, triggered_kind, triggered_actor FROM runs")
    assert run.id == answers[0].id
    assert (run.triggered_kind or "api", run.triggered_actor) == ("api", "ann")


def test_each_request_moves_the_start_on_but_not_beyond_the_latest_time(driver: RunDriver) -> None:
    first = put_off(driver, 1, wait=SOON, longest=SOON + timedelta(seconds=1))
    assert first.due_at < first.latest_at
    with driver.database.transaction() as tx:
        tx.execute("UPDATE enqueued_runs SET debounce_until = debounce_until - interval '2 seconds'")
    second = put_off(driver, 2, wait=SOON, longest=SOON * 100)
    assert second.due_at == second.latest_at == first.latest_at - timedelta(seconds=2)


def test_other_keys_and_tenants_are_runs_of_their_own(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    other.store({"a": []}, id="one")
    put_off(driver, 1)
    put_off(driver, 2, key="other")
    put_off(other, 3)
    make_due(driver)
    assert start(driver) == 3
    assert sorted(inputs(driver)) == [1, 2, 3]


def test_after_the_start_the_next_request_puts_off_another_run(driver: RunDriver) -> None:
    first = put_off(driver, 1)
    make_due(driver)
    start(driver)
    second = put_off(driver, 2)
    assert second.id != first.id
    assert second.requests == 1


def test_eight_requests_at_once_are_one_run(driver: RunDriver) -> None:
    calls = call_concurrently(*[lambda: put_off(driver, "x")] * 8)
    assert sorted(each.result.requests for each in calls) == list(range(1, 9))
    make_due(driver)
    assert start(driver) == 1
    assert inputs(driver) == ["x"]


def test_an_input_that_comes_after_the_row_was_read_is_not_lost(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_off(driver, "old")
    make_due(driver)
    lock, asked = rows.lock, []

    def late(tx: Transaction, batch: Any) -> Any:
        if not asked:
            asked.append(1)
            put_off(driver, "new")
            make_due(driver)
        return lock(tx, batch)

    monkeypatch.setattr(rows, "lock", late)
    assert start(driver) == 0, "the row that it has read is not there any more"
    assert inputs(driver) == []
    start(driver)
    assert inputs(driver) == ["new"]


def test_a_request_that_comes_while_the_run_starts_waits_and_puts_off_the_next_one(
    driver: RunDriver,
) -> None:
    first = put_off(driver, "first")
    make_due(driver)
    with driver.database.transaction() as tx:
        [row] = rows.due(tx)
        assert rows.lock(tx, [row]) == {first.id}
        with BackgroundCall(lambda: put_off(driver, "second")) as call:
            wait_for_lock(driver.database)
            rows.delete(tx, [first.id])
            tx.commit()
            call.wait()
    assert call.result.id != first.id
    assert call.result.requests == 1


def test_what_can_never_start_is_refused_at_once(driver: RunDriver) -> None:
    with pytest.raises(InvalidInput) as refused:
        put_off(driver, 1, key="", wait=timedelta(), longest=timedelta(days=2))
    assert [each.field for each in refused.value.errors] == ["waitMs", "longestMs", "key"]
    unknown = StartRequest("nobody", 1)
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: debouncing.put_off(tx, driver.tenant, unknown, Debounce("k", SOON)))
    assert driver.rows("SELECT 1 FROM enqueued_runs") == []
