"""A call whose claim was lost by a promotion of PostgreSQL goes on if its row is free, else it is fenced."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from support.run_driver import RunDriver, claim, header, settle
from support.servers import wait_until

from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer import watchdog
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.life_signs import LifeSigns
from pipeweave.workers.consumer.message import Work
from pipeweave.workers.consumer.time_limit import TimeLimit
from pipeweave.workers.consumer.watchdog import Watchdog

ME, OTHER = "me#1", "other#2"
# What a promotion leaves of a row whose claim was not sent to the standby.
_LOSE_CLAIM = """
UPDATE task_runs SET status = 'queued', worker = NULL, started_at = NULL, claimed_at = NULL,
    heartbeat_at = NULL
WHERE run_id = :run_id AND id = :id
"""


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    return driver.begin({"a": []})


@pytest.fixture
def mine(driver: RunDriver, run_id: UUID) -> TaskRun:
    """A task run that this process executes."""
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, 1, ME)
    assert claimed is not None
    return claimed


@pytest.fixture
def lost(driver: RunDriver, mine: TaskRun) -> TaskRun:
    """The same, after its claim was lost."""
    with driver.database.transaction() as tx:
        tx.execute(_LOSE_CLAIM, {"run_id": mine.run_id, "id": mine.id})
    return mine


def signs(database: Database, promotions: int, *, is_keyed: bool = False) -> LifeSigns:
    return LifeSigns(database, lambda: promotions, lambda _: is_keyed)


def test_a_call_whose_claim_was_lost_has_its_row_again(
    database: Database, driver: RunDriver, lost: TaskRun, run_id: UUID
) -> None:
    assert signs(database, 1).send([lost], 0) == {lost.id}
    row = driver.task_runs(run_id)[0]
    assert (row.status, row.worker, row.attempt) == ("running", ME, 1)
    with database.transaction() as tx:
        settle(tx, lost)
    assert driver.run(run_id).status == "completed"


def test_without_a_promotion_a_queued_row_is_not_taken(database: Database, lost: TaskRun) -> None:
    assert signs(database, 1).send([lost], 1) == set()


def test_a_row_that_another_worker_has_claimed_since_is_fenced(
    database: Database, driver: RunDriver, lost: TaskRun, run_id: UUID
) -> None:
    with database.transaction() as tx:
        assert claim(tx, run_id, 1, OTHER)
    assert signs(database, 1).send([lost], 0) == set()
    assert driver.task_runs(run_id)[0].worker == OTHER


def test_a_row_that_is_gone_is_fenced(database: Database, driver: RunDriver, mine: TaskRun) -> None:
    with database.transaction() as tx:
        for table in ("events", "task_runs"):
            tx.execute(f"DELETE FROM {table} WHERE run_id = :run_id", {"run_id": mine.run_id})
    assert signs(database, 1).send([mine], 0) == set()


def test_a_call_under_a_key_is_fenced_because_another_may_hold_the_key(
    database: Database, lost: TaskRun
) -> None:
    assert signs(database, 1, is_keyed=True).send([lost], 0) == set()


def test_of_several_calls_those_whose_rows_are_left_go_on(database: Database, driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": []})
    with database.transaction() as tx:
        calls = [each for number in (1, 2, 3) if (each := claim(tx, run_id, number, ME))]
    with database.transaction() as tx:
        for each in calls[1:]:
            tx.execute(_LOSE_CLAIM, {"run_id": run_id, "id": each.id})
        assert claim(tx, run_id, 3, OTHER)
    assert signs(database, 1).send(calls, 0) == {each.id for each in calls[:2]}


def a_watchdog(signs: LifeSigns) -> Watchdog:
    return Watchdog(
        signs._database,
        CallDurations(),
        TimeLimit(),
        shortest_ms=60_000,
        is_stopping=lambda: False,
        store=lambda *_: None,
        fence=lambda *_: None,
        between=lambda: None,
        signs=signs,
    )


def test_a_promotion_makes_the_heartbeat_of_a_call_due_at_once(
    database: Database, driver: RunDriver, lost: TaskRun, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "BEAT_EVERY_S", 3600.0)
    noticed: list[int] = []
    watching = a_watchdog(LifeSigns(database, lambda: len(noticed), lambda _: False))
    with database.transaction() as tx:
        work = Work(header(tx, run_id))
    watching.calling(work, lost, time.monotonic() + 600, 7_200_000)
    noticed.append(1)
    watching.start()
    try:
        wait_until(lambda: bool(driver.task_runs(run_id)[0].status == "running"))
    finally:
        watching.stop()


def test_a_watchdog_that_rests_watches_at_once_when_a_function_is_called(
    database: Database, driver: RunDriver, mine: TaskRun, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was called for long: it looks seldom, here never again by itself."""
    monkeypatch.setattr(watchdog, "RESTS_AFTER_S", 0.0)
    monkeypatch.setattr(watchdog, "REST_S", 600.0)
    watching = a_watchdog(signs(database, 0))
    watching.start()
    try:
        wait_until(lambda: watching._is_resting, what="it does not rest")
        with database.transaction() as tx:
            work = Work(header(tx, run_id))
        before = driver.task_runs(run_id)[0].heartbeat_at
        watching.calling(work, mine, time.monotonic() + 600, 20)
        wait_until(lambda: bool(driver.task_runs(run_id)[0].heartbeat_at > before), what="no heartbeat")
    finally:
        watching.stop()


def test_a_watchdog_does_not_rest_right_after_a_long_call(
    database: Database, mine: TaskRun, run_id: UUID
) -> None:
    """What was left to the end of the call, such as a TERM, is seen soon."""
    watching = a_watchdog(signs(database, 0))
    with database.transaction() as tx:
        work = Work(header(tx, run_id))
    watching.calling(work, mine, time.monotonic() + 600, 7_200_000)
    watching._called_at -= 3600
    watching.start()
    try:
        wait_until(lambda: time.monotonic() - watching._called_at < 600, what="the call began long ago")
        watching.returned()
        assert not watching._is_resting
    finally:
        watching.stop()
