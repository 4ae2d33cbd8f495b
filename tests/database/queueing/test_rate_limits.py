"""Rate limits: a start is paid for when its task run is let go, across all transactions and by one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.factories import a_task, register
from support.run_driver import TRANSIENT, RunDriver, claim, finish_task_run, settle

from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.store.database import Database

# Slow enough that a test never sees the next one let go: minutes lie between two starts.
SLOW = "3/h"


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    with database.transaction() as tx:
        tasks = [a_task("rated", rate_limit=SLOW), a_task("both", rate_limit=SLOW, concurrency=2)]
        register(tx, made.tenant, *tasks, a_task("tried", rate_limit=SLOW), id="rates")
    for task in ("rated", "both", "tried"):
        made.store({"a": []}, id=task, tasks={"a": task})
    return made


def statuses(driver: RunDriver, runs: list[UUID]) -> Counter[str]:
    return Counter(driver.statuses(run_id)["a"] for run_id in runs)


def let_pass(driver: RunDriver, task: str, **time: float) -> None:
    """As if so much time had passed since the last start."""
    statement = (
        "UPDATE tasks SET rate_at = rate_at - CAST(:time AS interval) WHERE tenant_id = :id AND id = :task"
    )
    with driver.database.transaction() as tx:
        tx.execute(statement, {"time": timedelta(**time), "id": driver.tenant, "task": task})


def fill(driver: RunDriver, task: str) -> int:
    with driver.database.transaction() as tx:
        return limits.fill(tx, driver.tenant, [task])


def test_as_many_as_the_rate_start_at_once_and_the_others_wait(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(5)]
    assert [driver.statuses(run_id)["a"] for run_id in runs] == ["queued"] * 3 + ["ready"] * 2
    assert sum(isinstance(each, Released) for each in driver.sent) == 3
    assert fill(driver, "rated") == 0


def test_an_end_frees_no_place(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(4)]
    driver.finish(runs[0], "a")
    assert statuses(driver, runs) == {"completed": 1, "queued": 2, "ready": 1}


def test_with_the_time_one_after_the_other_goes(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(6)]
    driver.finish(runs[0], "a")
    driver.finish(runs[1], "a")
    driver.finish(runs[2], "a")
    let_pass(driver, "rated", minutes=21)
    assert (fill(driver, "rated"), fill(driver, "rated")) == (1, 0)
    let_pass(driver, "rated", minutes=40)
    limits.fill_waiting(driver.database)
    assert statuses(driver, runs) == {"completed": 3, "queued": 3}


def test_no_burst_accumulates_while_no_worker_starts_queued_task_runs(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(9)]
    let_pass(driver, "rated", days=1)
    assert fill(driver, "rated") == 0
    assert statuses(driver, runs) == {"queued": 3, "ready": 6}
    # They start, all of them at once: the next ones have to wait for their time.
    for run_id in runs[:3]:
        with driver.database.transaction() as tx:
            assert claim(tx, run_id, 1)
    assert fill(driver, "rated") == 0


def test_the_tick_keeps_count_of_those_that_wait_for_a_worker_though_nothing_else_waits(
    driver: RunDriver,
) -> None:
    runs = [driver.trigger("rated") for _ in range(3)]
    let_pass(driver, "rated", days=1)
    limits.fill_waiting(driver.database)
    for run_id in runs:
        with driver.database.transaction() as tx:
            assert claim(tx, run_id, 1)
    assert driver.statuses(driver.trigger("rated"))["a"] == "ready"


def test_the_best_priority_goes_first_then_the_oldest(driver: RunDriver) -> None:
    spent = [driver.trigger("rated") for _ in range(3)]
    waiting = [driver.trigger("rated", priority=priority) for priority in (50, 7, 50, 7)]
    for run_id in spent:
        driver.finish(run_id, "a")
    order = []
    for _ in waiting:
        let_pass(driver, "rated", minutes=20.1)
        driver.sent.clear()
        assert fill(driver, "rated") == 1
        [released] = [each for each in driver.sent if isinstance(each, Released)]
        order.append(waiting.index(released.run_id))
        with driver.database.transaction() as tx:
            claim(tx, released.run_id, 1)
    assert order == [1, 3, 0, 2]


def test_another_attempt_is_another_start(driver: RunDriver) -> None:
    run_id = driver.trigger("tried")
    driver.finish(run_id, "a", failure=TRANSIENT)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE task_runs SET due_at = now() WHERE run_id = :id", {"id": run_id})
    due_attempts.release_due(driver.database)
    assert driver.statuses(run_id) == {"a": "queued"}
    others = [driver.trigger("tried") for _ in range(2)]
    assert statuses(driver, others) == {"queued": 1, "ready": 1}


def test_of_a_rate_and_a_number_at_once_the_stricter_one_holds(driver: RunDriver) -> None:
    runs = [driver.trigger("both") for _ in range(5)]
    assert statuses(driver, runs) == {"queued": 2, "ready": 3}
    driver.finish(runs[0], "a")
    assert statuses(driver, runs) == {"completed": 1, "queued": 2, "ready": 2}
    driver.finish(runs[1], "a")
    assert statuses(driver, runs) == {"completed": 2, "queued": 1, "ready": 2}


def test_the_rate_is_not_exceeded_by_triggers_at_once(driver: RunDriver) -> None:
    threads = call_concurrently(*[lambda: driver.trigger("rated")] * 8)
    assert statuses(driver, [each.result for each in threads]) == {"queued": 3, "ready": 5}


def test_the_rate_is_not_exceeded_by_ends_at_once(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(9)]
    with driver.database.transaction() as tx:
        started = [claim(tx, run_id, 1) for run_id in runs[:3]]
    let_pass(driver, "rated", minutes=40)
    works: list[Callable[[], object]] = [
        lambda each=each: driver.database.run(lambda tx: settle(tx, each))  # type: ignore[misc]
        for each in started
    ]
    assert [each.error for each in call_concurrently(*works)] == [None] * 3
    assert statuses(driver, runs) == {"completed": 3, "queued": 2, "ready": 4}


def test_the_items_of_a_map_and_the_steps_of_a_run_are_starts_too(driver: RunDriver) -> None:
    run_id = driver.begin(
        {"m": [], "last": ["m"]},
        {"list": [1, 2]},
        tasks={"m": "rated", "last": "rated"},
        maps={"m": "${input.list}"},
    )
    for ordinal in (3, 4):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal)
    assert driver.statuses(run_id) == {"m": "completed", "last": "queued"}
    assert driver.statuses(driver.trigger("rated"))["a"] == "ready"


def test_a_rate_that_was_lifted_lets_all_go(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(6)]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("rated", "second"), a_task("both"), a_task("tried"), id="rates")
    limits.fill_waiting(driver.database)
    assert statuses(driver, runs) == {"queued": 6}
