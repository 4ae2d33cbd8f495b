"""What blocks maintenance, and what the tick does about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.counted_events import fold_all
from support.empty_broker import NOWHERE, EmptyBroker
from support.factories import register
from support.maintenance import do, mode, put, state
from support.run_driver import RunDriver, claim, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.reading import maintenance
from pipeweave.orchestrator.recovery import tick, tick_status
from pipeweave.orchestrator.recovery.tick_status import LastTick, complaint
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, WAITING
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings


@pytest.fixture
def driver(fresh_database: Database) -> RunDriver:
    """Alone in its database: the mode is everyone's."""
    return RunDriver(fresh_database)


@pytest.fixture
def deployment(driver: RunDriver) -> Iterator[Deployment]:
    settings = Settings(database_url=driver.database.url, broker_url=NOWHERE)
    yield Deployment(settings, driver.database, driver.values, EmptyBroker(settings))


# --- what blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["pending", "paused", "error_handling", "running"])
def test_a_run_blocks_maintenance_whatever_it_waits_for(driver: RunDriver, status: str) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        tx.execute("UPDATE runs SET status = :status WHERE id = :id", {"status": status, "id": run_id})
    do(driver, maintenance_mode.request)
    do(driver, maintenance_mode.enter)
    found = state(driver)
    assert (found["mode"], found["canEnterMaintenance"], found["blockingTotal"]) == (WAITING, False, 1)
    assert found["message"].endswith("when 1 unfinished run has ended.")
    assert [(each["id"], each["status"]) for each in found["blocking"]] == [
        (ids.show(ids.RUN, run_id), status)
    ]


def test_a_task_run_that_waits_for_its_next_attempt_blocks_maintenance(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        due = tx.now + timedelta(hours=1)
        tx.execute(
            "UPDATE task_runs SET status = 'pending', due_at = :due, attempt = 2 WHERE run_id = :id",
            {"due": due, "id": run_id},
        )
    do(driver, maintenance_mode.request)
    found = state(driver)
    assert (found["canEnterMaintenance"], found["pendingTasks"], found["runningTasks"]) == (False, 1, 0)


def test_the_oldest_open_runs_of_all_tenants_are_shown_with_what_they_wait_for(driver: RunDriver) -> None:
    driver.store({"a": [], "b": [], "c": ["a"], "m": []}, maps={"m": "${input.list}"})
    first = driver.trigger(input={"list": [1, 2]})
    with driver.database.transaction() as tx:
        claim(tx, first, 1)
        tenants.ensure_tenant(tx, "neighbour")
        register(tx, "neighbour", "noop")
        standalone = standalone_tasks.enqueue(tx, VALUES, "neighbour", [QueueRequest("noop")])[0].task_run_id
    others = [driver.trigger(input={"list": []}) for _ in range(maintenance.SHOWN + 5)]
    found = state(driver)
    assert found["blockingTotal"] == 2 + len(others)
    assert len(found["blocking"]) == maintenance.SHOWN
    shown = [ids.show(ids.RUN, each) for each in [first, *others]]
    assert [each["id"] for each in found["blocking"]] == [
        shown[0],
        ids.show(ids.TASK_RUN, standalone),
        *shown[1 : maintenance.SHOWN - 1],
    ]
    oldest, second = found["blocking"][:2]
    assert (oldest["pipelineId"], oldest["taskId"], oldest["tenant"]) == ("driven", None, driver.tenant)
    assert oldest["taskRuns"] == {"running": 1, "queued": 3, "ready": 0, "waiting": 0, "pending": 1}
    assert oldest["age"] >= 0
    assert (second["pipelineId"], second["taskId"], second["tenant"]) == (None, "noop", "neighbour")


def test_the_time_until_nothing_is_open_comes_from_what_ended_in_the_last_minute(driver: RunDriver) -> None:
    assert state(driver)["emptyInMs"] == 0.0
    left = [driver.begin({"a": []}) for _ in range(4)]
    fold_all(driver.database)
    assert state(driver)["emptyInMs"] is None, "nothing ended"
    driver.finish(left.pop(), "a")
    driver.finish(left.pop(), "a")
    fold_all(driver.database)
    # Two ended in one minute to two: the other two take as long again.
    assert 60_000 <= state(driver)["emptyInMs"] <= 120_000
    with driver.database.transaction() as tx:
        tx.execute("UPDATE runs SET status = 'paused' WHERE id = :id", {"id": left[0]})
    assert state(driver)["emptyInMs"] is None, "a paused run ends only after it is resumed"


def test_standalone_tasks_take_as_long_as_the_attempts_that_end(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        queued = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")] * 3)
    assert state(driver)["emptyInMs"] is None
    with driver.database.transaction() as tx:
        started = claim(tx, ids.run_id_of(queued[0].task_run_id), 1)
        assert started is not None
        settle(tx, started)
    fold_all(driver.database)
    assert 120_000 <= state(driver)["emptyInMs"] <= 240_000


def test_what_ended_long_ago_says_nothing(driver: RunDriver) -> None:
    first, _ = driver.begin({"a": []}), driver.trigger()
    driver.finish(first, "a")
    fold_all(driver.database)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE run_stats SET at = at - interval '3 minutes' WHERE grain = 'minute'")
    assert state(driver)["emptyInMs"] is None


def test_health_counts_what_waits_and_what_runs(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": ["a"]})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
        found = maintenance.state(tx)
    assert (found["mode"], found["pendingTasks"], found["runningTasks"]) == (RUNNING, 1, 1)
    assert found["canEnterMaintenance"] is False


# --- the tick ---------------------------------------------------------------------------------------------


def test_the_tick_notices_the_end_of_a_run_that_nobody_noticed(
    deployment: Deployment, driver: RunDriver
) -> None:
    run_id = driver.begin({"a": []})
    do(driver, maintenance_mode.request)
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started)
        # Its process dies here.
        tx._after.clear()
    assert mode(driver) == WAITING
    tick.run_once(deployment)
    assert mode(driver) == MAINTENANCE


def test_the_tick_brings_maintenance_when_nothing_was_open_anyway(
    deployment: Deployment, driver: RunDriver
) -> None:
    do(driver, maintenance_mode.request)
    assert mode(driver) == WAITING
    tick.run_once(deployment)
    assert mode(driver) == MAINTENANCE


def test_the_tick_goes_on_healing_while_maintenance_is_waited_for(
    deployment: Deployment, driver: RunDriver
) -> None:
    driver.begin({"a": []})
    late(driver)
    do(driver, maintenance_mode.request)
    assert tick.run_once(deployment).republished == 1
    assert mode(driver) == WAITING


def test_the_tick_sends_nothing_during_maintenance(deployment: Deployment, driver: RunDriver) -> None:
    driver.begin({"a": []})
    late(driver)
    put(driver, MAINTENANCE)
    driver.sent.clear()
    assert tick.run_once(deployment) == tick.Ticked()
    assert driver.sent == []
    assert driver.rows("SELECT last_tick_at FROM orchestrator_state")[0].last_tick_at is not None


def late(driver: RunDriver) -> None:
    """Every message is lost, and has been for an hour."""
    with driver.database.transaction() as tx:
        tx.execute("UPDATE task_runs SET queued_at = queued_at - interval '1 hour'")


def test_a_tick_leaves_its_time_when_the_last_one_is_old(deployment: Deployment, driver: RunDriver) -> None:
    with driver.database.reading() as tx:
        assert tick_status.find(tx) == LastTick(None, None)
    tick.run_once(deployment)
    with driver.database.reading() as tx:
        first = tick_status.find(tx)
    assert first.at is not None
    assert first.age is not None
    assert first.age < timedelta(seconds=30)
    with leases.held(driver.database, leases.TICK, timedelta(minutes=1)):
        assert tick.run_once(deployment).is_elsewhere
    with driver.database.reading() as tx:
        assert tick_status.find(tx).at == first.at
    driver.rows("UPDATE orchestrator_state SET last_tick_at = now() - interval '1 hour' RETURNING 1")
    tick.run_once(deployment)
    last = tick_status.at(driver.database.url)
    assert last is not None
    assert last > first.at


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("interval_ms", "age", "is_late"),
    [(1000, 9, False), (1000, 11, True), (10_000, 49, False), (10_000, 51, True), (1000, 3600, True)],
)
def test_the_tick_is_missed_after_ten_seconds_or_five_intervals(
    interval_ms: int, age: int, is_late: bool
) -> None:
    settings = Settings(poll_interval_ms=interval_ms)
    with_age = LastTick(None, age * SECOND)
    never = LastTick(None, None)
    assert (complaint(with_age, settings, watched_for=timedelta()) is not None) == is_late
    assert (complaint(never, settings, watched_for=age * SECOND) is not None) == is_late
    assert complaint(with_age, Settings(mode="serverless"), watched_for=age * SECOND) is None
