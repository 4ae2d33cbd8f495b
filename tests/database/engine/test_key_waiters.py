"""Task runs that wait for the holder of their idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.keyed_driver import DAY, Keyed
from support.run_driver import PERMANENT, header

from pipeweave import ids
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait, TaskRun
from pipeweave.orchestrator.engine import idempotency, key_waiters
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> Keyed:
    return Keyed(database)


# --- stepping back and going on ---------------------------------------------------------------------------


def test_a_waiter_occupies_no_worker_and_uses_up_no_attempt(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    row = driver.row(second)
    assert (row.status, row.attempt, row.worker, row.started_at) == ("pending", 1, None, None)
    assert (row.awaits, row.idempotency_key) == (first.id, "k")
    assert row.due_at > datetime.now(UTC)
    assert driver.rows("SELECT 1 FROM attempts WHERE run_id = :id", id=second.run_id) == []
    (event,) = driver.events(second.run_id, "task_run.stepped_back")
    assert event.data["awaits"] == ids.show(ids.TASK_RUN, first.id)
    driver.assert_told(second.run_id)


def test_the_end_of_the_holder_wakes_all_waiters(driver: Keyed) -> None:
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(3)]
    other = driver.waiting_for_another()
    driver.sent.clear()
    driver.turn(driver.done(first, 7))
    for each in waiting:
        row = driver.row(each)
        assert (row.status, row.due_at, row.awaits, row.attempt) == ("queued", None, None, 1)
        assert driver.released(each.run_id) == [1]
        found = driver.take(driver.start(each.run_id))
        assert isinstance(found, Completion)
        driver.turn(found)
        assert driver.row(each).output == 7
        driver.assert_told(each.run_id)
    assert driver.row(other).status == "pending"


def test_more_than_one_transaction_wakes_are_woken_all_the_same(
    driver: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_waiters, "BATCH", 2)
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(5)]
    driver.turn(driver.done(first))
    assert [driver.row(each).status for each in waiting] == ["queued"] * 5


def test_a_failure_is_not_kept_and_one_waiter_takes_its_place(driver: Keyed) -> None:
    first = driver.holder()
    waiting = [driver.waiting() for _ in range(3)]
    driver.turn((first, PERMANENT))
    assert driver.key_row() is None
    assert [driver.row(each).status for each in waiting] == ["queued", "pending", "pending"]
    second = driver.start(waiting[0].run_id)
    assert driver.take(second) is None
    assert driver.key_row().task_run_id == second.id
    driver.turn(driver.done(second, 2))
    assert [driver.row(each).status for each in waiting] == ["completed", "queued", "queued"]


def test_a_cancelled_holder_gives_way_and_its_late_result_counts_for_nothing(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, first.run_id))
    assert driver.row(second).status == "queued"
    assert driver.turn(driver.done(first, "late")) == []
    assert driver.take(driver.start(second.run_id)) is None
    assert driver.key_row().finished_at is None


def test_a_waiter_that_is_cancelled_leaves_the_holder_alone(driver: Keyed) -> None:
    first = driver.holder()
    second, third = driver.waiting(), driver.waiting()
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, second.run_id))
    assert driver.key_row().task_run_id == first.id
    assert driver.row(third).status == "pending"


def test_the_next_holder_may_be_cancelled_before_it_begins(driver: Keyed) -> None:
    first = driver.holder()
    second, third = driver.waiting(), driver.waiting()
    driver.turn((first, PERMANENT))
    assert [driver.row(each).status for each in (second, third)] == ["queued", "pending"]
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, second.run_id))
    assert driver.row(third).status == "queued"


def test_a_wake_up_that_was_lost_is_made_up_for_when_it_is_due(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.waiting()
    with driver.database.transaction() as tx:
        # As a process leaves it that dies between its commit and what it does after that.
        advance = Advance(tx, header(tx, first.run_id))
        advance.settle(advance.fail([(first, PERMANENT)], max_retry_delay_ms=None).final)
        tx._after.clear()
    assert (driver.row(second).status, driver.key_row().task_run_id) == ("pending", first.id)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE task_runs SET due_at = now() WHERE id = :id", {"id": second.id})
    due_attempts.release_due(driver.database)
    assert driver.row(second).status == "queued"
    assert driver.take(driver.start(second.run_id)) is None, "a holder that failed is taken over"


def test_the_longer_the_holder_takes_the_later_a_waiter_looks_on_its_own(driver: Keyed) -> None:
    driver.holder()
    started = driver.start(driver.one())
    found = driver.take(started)
    assert isinstance(found, KeyWait)
    now = datetime.now(UTC)
    pauses = []
    for age in (timedelta(), timedelta(seconds=100), DAY):
        run_id = driver.one()
        each = driver.start(run_id)
        driver.turn(KeyWait(each, "k", found.holder, now - age))
        pauses.append(driver.row(each).due_at - now)
    leeway = timedelta(seconds=10)
    for pause, expected in zip(
        pauses, (key_waiters.SOONEST, timedelta(seconds=100), key_waiters.LATEST), strict=True
    ):
        assert expected - leeway < pause < expected + leeway


def test_a_limited_task_that_waits_leaves_its_slot_to_others(driver: Keyed) -> None:
    first = driver.start(driver.one("limited"))
    assert driver.take(first) is None
    second, third = driver.start(driver.one("limited")), driver.one("limited")
    found = driver.take(second)
    assert isinstance(found, KeyWait)
    assert driver.statuses(third) == {"a": "ready"}
    driver.turn(found)
    assert driver.statuses(third) == {"a": "queued"}
    driver.turn(driver.done(first))
    assert driver.row(second).status == "queued"


# --- stepping back while the holder ends ------------------------------------------------------------------


def ends_well(driver: Keyed, holder: TaskRun) -> object:
    return driver.turn(driver.done(holder))


def ends_badly(driver: Keyed, holder: TaskRun) -> object:
    return driver.turn((holder, PERMANENT))


def is_cancelled(driver: Keyed, holder: TaskRun) -> object:
    return driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, holder.run_id))


@pytest.mark.parametrize("end", [ends_well, ends_badly, is_cancelled])
def test_a_waiter_that_steps_back_just_after_the_holder_ended_is_queued_at_once(
    driver: Keyed, end: Callable[[Keyed, TaskRun], object]
) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, KeyWait)
    end(driver, first)
    driver.turn(found)
    assert driver.row(second).status == "queued"


@pytest.mark.parametrize("end", [ends_well, ends_badly, is_cancelled])
def test_a_waiter_that_steps_back_while_the_holder_ends_is_woken(
    driver: Keyed, end: Callable[[Keyed, TaskRun], object]
) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, KeyWait)
    call_concurrently(lambda: driver.turn(found), lambda: end(driver, first))
    assert driver.row(second).status == "queued"


def test_the_end_of_the_holder_waits_for_a_waiter_that_is_stepping_back(driver: Keyed) -> None:
    first = driver.holder()
    second = driver.start(driver.one())
    found = driver.take(second)
    assert isinstance(found, KeyWait)
    with driver.database.transaction() as tx:
        assert idempotency.lock(tx, driver.tenant, [found]) == set()
        with BackgroundCall(lambda: driver.turn(driver.done(first))) as beside:
            wait_for_lock(driver.database)
            idempotency.settle(tx, header(tx, second.run_id), [found], [], set(), TouchedLimits())
            tx.commit()
    assert beside.result
    assert driver.row(second).status == "queued"


def test_turns_that_end_and_await_each_others_keys_do_not_block_each_other(driver: Keyed) -> None:
    runs_ = {key: driver.begin({"a": [], "b": []}) for key in ("k1", "k2")}
    holders = {key: driver.start(run_id, 1) for key, run_id in runs_.items()}
    assert [driver.take(each, key) for key, each in holders.items()] == [None, None]
    found = {
        key: driver.take(driver.start(runs_[key], 2), other) for key, other in (("k1", "k2"), ("k2", "k1"))
    }

    def turn(key: str) -> Callable[[], object]:
        awaits = found[key]
        assert isinstance(awaits, KeyWait)
        return lambda: driver.turn(driver.done(holders[key], key, key), awaits)

    for each in call_concurrently(turn("k1"), turn("k2")):
        assert each.error is None
    assert [driver.statuses(run_id) for run_id in runs_.values()] == [{"a": "completed", "b": "queued"}] * 2
