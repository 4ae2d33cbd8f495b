"""What stands still is found, and what is on its way is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.empty_broker import NOWHERE, EmptyBroker
from support.run_driver import TRANSIENT, Clock, RunDriver, claim, settle
from support.stalled_runs import WIDE, found, later, past

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import stalled
from pipeweave.orchestrator.diagnosis.stalled import StalledItem, StalledKind
from pipeweave.orchestrator.recovery import tick
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.settings import Settings


@pytest.fixture
def queues() -> EmptyBroker:
    return EmptyBroker()


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


@pytest.fixture
def deployment(driver: RunDriver, queues: EmptyBroker) -> Deployment:
    settings = Settings(database_url=driver.database.url, broker_url=NOWHERE)
    found = Deployment(settings, driver.database, driver.values, queues)
    tick.run_once(found)
    return found


def a_worker(tx: Transaction, driver: RunDriver) -> str:
    return worker_processes.register(tx, driver.tenant, WorkerStart("python", "w@host", "host", 2, 3))


def only(deployment: Deployment) -> StalledItem:
    (one,) = found(deployment)
    return one


# --- nothing ----------------------------------------------------------------------------------------------


def test_work_in_progress_is_not_stalled(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    assert found(deployment) == []


def test_a_task_run_on_a_live_worker_is_not_stalled(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1, f"{a_worker(tx, driver)}#77")
    later(clock)
    assert found(deployment) == []


def test_final_rows_are_not_stalled(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    later(clock, timedelta(days=1))
    assert found(deployment) == []


# --- the tick and the workers -----------------------------------------------------------------------------


def test_a_tick_that_does_not_come_is_missed(deployment: Deployment, driver: RunDriver) -> None:
    past(driver, "UPDATE orchestrator_state SET last_tick_at = now() - interval '1 hour'")
    one = only(deployment)
    assert (one.kind, one.why) == (StalledKind.TICK_SILENT, "the last tick was 60 min ago")
    assert one.since is not None
    past(driver, "UPDATE orchestrator_state SET last_tick_at = NULL")
    assert only(deployment) == StalledItem(StalledKind.TICK_SILENT, "there was no tick yet")


def test_a_silent_worker_is_reported_with_its_running_task_runs(
    deployment: Deployment, driver: RunDriver
) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver)
        claim(tx, run_id, 1, f"{worker}#77")
    past(driver, "UPDATE workers SET heartbeat_at = now() - interval '1 minute'")
    silent, running = found(deployment)
    assert (silent.kind, running.kind) == (StalledKind.WORKER_SILENT, StalledKind.WORKER_GONE)
    assert worker in silent.why
    assert (running.run_id, running.task_run_id) == (run_id, ids.task_run_id(run_id, 1))
    assert running.since == silent.since is not None


def test_a_task_run_on_a_stopped_worker_is_stalled(deployment: Deployment, driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []})
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver)
        claim(tx, run_id, 1, worker)
        claim(tx, run_id, 2, "never registered")
        worker_processes.stop(tx, worker)
    assert [(each.kind, each.since is None) for each in found(deployment)] == [
        (StalledKind.WORKER_GONE, False),
        (StalledKind.WORKER_GONE, True),
    ]


def test_an_attempt_without_heartbeats_is_stale(deployment: Deployment, driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1, a_worker(tx, driver))
    past(driver, "UPDATE task_runs SET heartbeat_at = now() - interval '1 hour'")
    assert (only(deployment).kind, only(deployment).run_id) == (StalledKind.ATTEMPT_SILENT, run_id)


# --- messages, retries, limits ----------------------------------------------------------------------------


def test_a_message_is_lost_when_its_queue_has_only_younger_ones(
    deployment: Deployment, driver: RunDriver, clock: Clock, queues: EmptyBroker
) -> None:
    run_id = driver.begin({"a": [], "b": []})
    later(clock)
    queues.oldest_sent = (datetime.now(UTC) - timedelta(minutes=1)).timestamp()
    assert found(deployment) == []
    queues.oldest_sent = (datetime.now(UTC) + timedelta(minutes=1)).timestamp()
    assert [each.kind for each in found(deployment)] == [StalledKind.MESSAGE_LOST] * 2
    queues.oldest_sent = None
    assert [each.task_run_id for each in found(deployment)] == [ids.task_run_id(run_id, n) for n in (1, 2)]


def test_a_broker_that_is_away_is_said_once(
    deployment: Deployment, driver: RunDriver, clock: Clock, queues: EmptyBroker
) -> None:
    driver.begin({"a": [], "b": []})
    later(clock)
    queues.is_away = True
    assert only(deployment) == StalledItem(StalledKind.BROKER_AWAY, "the broker cannot be used")


def test_an_attempt_that_is_long_due_is_stale(deployment: Deployment, driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started, failure=TRANSIENT)
    assert found(deployment) == []
    past(driver, "UPDATE task_runs SET due_at = now() - interval '1 minute'")
    one = only(deployment)
    assert (one.kind, one.run_id, one.why) == (
        StalledKind.RETRY_OVERDUE,
        run_id,
        "attempt 2 of step a is due",
    )


def test_a_limit_with_room_and_ready_task_runs_is_stalled(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.store({"a": []}, id="single", tasks={"a": "single"})
    runs = [driver.trigger("single") for _ in range(3)]
    with driver.database.transaction() as tx:
        claim(tx, runs[0], 1, a_worker(tx, driver))
    later(clock)
    assert found(deployment) == []
    past(driver, "UPDATE tasks SET concurrency = 2 WHERE id = 'single'")
    one = only(deployment)
    assert (one.kind, one.run_id) == (StalledKind.LIMIT_HAS_ROOM, runs[1])
    assert one.why == "2 task runs of task single are ready, and it has room for 1"
    with driver.database.transaction() as tx:
        tx.execute(
            "INSERT INTO pauses (tenant_id, task_id, paused_at) VALUES (:tenant, '', now())",
            {"tenant": driver.tenant},
        )
    assert found(deployment) == []


def test_a_rate_limit_whose_next_start_is_not_due_is_not_stalled(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.store({"a": []}, id="single", tasks={"a": "single"})
    runs = [driver.trigger("single") for _ in range(2)]
    with driver.database.transaction() as tx:
        claim(tx, runs[0], 1, a_worker(tx, driver))
    later(clock)
    rate = "concurrency = 2, rate_limit = 1, rate_seconds = 60"
    past(driver, f"UPDATE tasks SET {rate}, rate_at = now() + interval '1 minute' WHERE id = 'single'")
    assert found(deployment) == []
    past(driver, "UPDATE tasks SET rate_at = now() - interval '1 minute' WHERE id = 'single'")
    assert only(deployment).kind is StalledKind.LIMIT_HAS_ROOM


def test_task_runs_of_another_tenant_take_no_room(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    other = RunDriver(driver.database)
    for each in (driver, other):
        each.store({"a": []}, id="single", tasks={"a": "single"})
    theirs, mine, waiting = other.trigger("single"), driver.trigger("single"), driver.trigger("single")
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver)
        assert claim(tx, theirs, 1, worker) and claim(tx, mine, 1, worker)
    later(clock)
    past(driver, "UPDATE tasks SET concurrency = 2 WHERE id = 'single'")
    one = only(deployment)
    assert (one.kind, one.run_id) == (StalledKind.LIMIT_HAS_ROOM, waiting)
    assert one.why.endswith("it has room for 1")


# --- runs -------------------------------------------------------------------------------------------------


def test_a_join_that_is_due_and_closed_is_stale(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    later(clock)
    one = only(deployment)
    assert (one.kind, one.task_run_id) == (StalledKind.JOIN_CLOSED, ids.task_run_id(run_id, 10))
    assert one.since == max(row.finished_at for row in driver.task_runs(run_id) if row.finished_at)


def test_a_map_with_only_final_items_is_stalled(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"m": []}, {"list": list(range(10))}, maps={"m": "${input.list}"})
    past(
        driver,
        "UPDATE task_runs SET status = 'skipped', finished_at = :now WHERE kind = 'item'",
        now=driver.database.now(),
    )
    later(clock)
    one = only(deployment)
    assert (one.kind, one.task_run_id) == (StalledKind.JOIN_CLOSED, ids.task_run_id(run_id, 1))


def test_a_run_of_which_all_is_over_is_stale(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({f"end{number}": [] for number in range(8)})
    driver.finish(run_id, *(f"end{number}" for number in range(8)))
    later(clock)
    one = only(deployment)
    assert (one.kind, one.run_id, one.task_run_id) == (StalledKind.RUN_WITHOUT_LIVE_ROW, run_id, None)


def test_a_run_past_its_time_limit_is_stalled(deployment: Deployment, driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    assert (only(deployment).kind, only(deployment).run_id) == (StalledKind.RUN_OVERDUE, run_id)


def test_a_run_that_the_next_tick_will_end_is_not_stale(deployment: Deployment, driver: RunDriver) -> None:
    driver.begin({"a": []}, timeout="5m")
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 second'")
    assert found(deployment) == []


def test_stalled_work_is_mended_while_maintenance_is_awaited(
    deployment: Deployment, driver: RunDriver
) -> None:
    driver.begin({"a": []}, timeout="5m")
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    past(driver, "UPDATE orchestrator_state SET mode = 'waiting_for_maintenance'")
    assert only(deployment).kind is StalledKind.RUN_OVERDUE


def test_more_of_a_kind_is_not_shown_than_a_person_reads(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.begin({f"s{number}": [] for number in range(stalled.MOST_PER_KIND + 20)})
    later(clock)
    assert len(found(deployment)) == stalled.MOST_PER_KIND


def test_everything_stale_has_something_that_heals_it() -> None:
    assert set(stalled.REMEDIES) == set(StalledKind)
