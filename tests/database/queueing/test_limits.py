"""Concurrency limits: a slot is a live row."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import a_task, register
from support.run_driver import PERMANENT, RunDriver, claim, settle

from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.queueing import limits, pauses
from pipeweave.orchestrator.recovery import task_moves
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    made.store({"a": []}, id="limited", tasks={"a": "limited"})
    return made


def statuses(driver: RunDriver, runs: list[UUID]) -> Counter[str]:
    return Counter(driver.statuses(run_id)["a"] for run_id in runs)


def fill(driver: RunDriver, *tasks: str) -> None:
    with driver.database.transaction() as tx:
        limits.fill(tx, driver.tenant, tasks or ["limited"])


def live(driver: RunDriver) -> int:
    statement = """SELECT count(*) FROM task_runs WHERE tenant_id = :id AND status IN ('queued', 'running')
        AND kind <> 'map' AND task_id = 'limited'"""
    return int(driver.rows(statement, id=driver.tenant)[0][0])


def test_as_many_go_as_the_limit_lets(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(5)]
    assert statuses(driver, runs) == {"queued": 2, "ready": 3}
    fill(driver)
    assert statuses(driver, runs) == {"queued": 2, "ready": 3}


@pytest.mark.parametrize("failure", [None, PERMANENT])
def test_the_oldest_waiting_one_goes_when_a_slot_is_free(driver: RunDriver, failure: object) -> None:
    runs = [driver.trigger("limited") for _ in range(5)]
    driver.sent.clear()
    driver.finish(runs[0], "a", failure=failure)
    assert [driver.statuses(run_id)["a"] for run_id in runs[2:]] == ["queued", "ready", "ready"]
    assert [each.run_id for each in driver.sent if isinstance(each, Released)] == [runs[2]]


def test_the_best_priority_goes_first(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(3)]
    urgent = driver.trigger("limited", priority=1)
    driver.finish(runs[0], "a")
    assert driver.statuses(urgent)["a"] == "queued"
    assert driver.statuses(runs[2])["a"] == "ready"


def test_a_limit_is_not_exceeded_by_triggers_at_once(driver: RunDriver) -> None:
    threads = call_concurrently(*[lambda: driver.trigger("limited")] * 5)
    assert statuses(driver, [each.result for each in threads]) == {"queued": 2, "ready": 3}


def test_a_limit_is_not_exceeded_by_ends_at_once(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(12)]
    while live(driver):
        with driver.database.transaction() as tx:
            started = [claim(tx, run_id, 1) for run_id in runs]
        going = [each for each in started if each is not None]
        assert len(going) <= 2

        def end(each: object) -> None:
            driver.database.run(lambda tx: settle(tx, each))  # type: ignore[arg-type]

        threads = call_concurrently(*(lambda each=each: end(each) for each in going))
        assert [each.error for each in threads] == [None] * len(going)
        assert live(driver) <= 2
    assert statuses(driver, runs) == {"completed": 12}


def test_a_second_fill_waits_for_the_first_and_sees_its_queued_task_runs(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(6)]
    raise_limit = "UPDATE tasks SET concurrency = 4 WHERE tenant_id = :id AND id = 'limited'"
    with driver.database.transaction() as tx:
        tx.execute(raise_limit, {"id": driver.tenant})
    with driver.database.transaction() as tx:
        limits.fill(tx, driver.tenant, ["limited"])
        beside = BackgroundCall(lambda: fill(driver))
        beside.__enter__()
        wait_for_lock(driver.database)
    assert beside.result is None
    assert statuses(driver, runs) == {"queued": 4, "ready": 2}


def test_a_limit_that_was_lifted_lets_all_go(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(6)]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", a_task("limited", "second"), a_task("single", concurrency=1))
    fill(driver)
    assert statuses(driver, runs) == {"queued": 6}


def test_a_limit_that_was_lowered_lets_none_go_until_enough_ended(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(4)]
    limited = a_task("limited", "second", concurrency=1)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", limited, a_task("single", concurrency=1))
    driver.finish(runs[0], "a")
    assert statuses(driver, runs) == {"completed": 1, "queued": 1, "ready": 2}
    driver.finish(runs[1], "a")
    assert statuses(driver, runs) == {"completed": 2, "queued": 1, "ready": 1}


def test_a_map_s_own_task_run_holds_no_slot(driver: RunDriver) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2, 3]}, tasks={"m": "limited"}, maps={"m": "${input.list}"})
    rows = driver.task_runs(run_id)
    assert [row.status for row in rows] == ["waiting", "queued", "queued", "ready"]
    for ordinal in (2, 3, 4):
        with driver.database.transaction() as tx:
            started = claim(tx, run_id, ordinal)
            assert started is not None
            settle(tx, started, output=ordinal)
    assert driver.run(run_id).status == "completed"


def test_limits_of_tenants_do_not_touch_each_other(driver: RunDriver) -> None:
    mine = [driver.trigger("limited") for _ in range(3)]
    other = RunDriver(driver.database)
    other.store({"a": []}, id="limited", tasks={"a": "limited"})
    theirs = [other.trigger("limited") for _ in range(3)]
    assert statuses(driver, mine) == statuses(other, theirs) == {"queued": 2, "ready": 1}


def test_a_new_limit_holds_for_open_task_runs(driver: RunDriver) -> None:
    driver.store({"first": [], "a": ["first"]}, id="later")
    runs = [driver.trigger("later") for _ in range(3)]
    noop, others = a_task("noop", "second", concurrency=1), [a_task(each) for each in ("limited", "single")]
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, noop, *others)
    task_moves.move_open(driver.database)
    for run_id in runs:
        driver.finish(run_id, "first")
    assert statuses(driver, runs) == {"queued": 1, "ready": 2}


# --- the tick ---------------------------------------------------------------------------------------------


def held_back(driver: RunDriver, task: str = "noop") -> UUID:
    """A run whose step is ready and has room: it was paused, and whoever ended that died."""
    driver.store({"a": []}, id=f"held-{task}", tasks={"a": task})
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant, task)
    run_id = driver.trigger(f"held-{task}")
    driver.rows("DELETE FROM pauses WHERE tenant_id = :id RETURNING 1", id=driver.tenant)
    assert driver.statuses(run_id) == {"a": "ready"}
    return run_id


def test_full_limits_do_not_use_up_the_batch_of_the_tick(
    isolated_driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TASKS_PER_TICK", 1)
    isolated_driver.store({"a": []}, id="full", tasks={"a": "limited"})
    full = [isolated_driver.trigger("full") for _ in range(3)]
    waiting = held_back(isolated_driver)
    assert limits.fill_waiting(isolated_driver.database) == 1
    assert isolated_driver.statuses(waiting) == {"a": "queued"}
    assert [isolated_driver.statuses(each)["a"] for each in full] == ["queued", "queued", "ready"]


def test_paused_tasks_do_not_use_up_the_batch_of_the_tick(
    isolated_driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TASKS_PER_TICK", 1)
    waiting, paused = held_back(isolated_driver), held_back(isolated_driver, "limited")
    with isolated_driver.database.transaction() as tx:
        pauses.pause(tx, isolated_driver.tenant, "limited")
    assert limits.fill_waiting(isolated_driver.database) == 1
    assert [isolated_driver.statuses(each)["a"] for each in (waiting, paused)] == ["queued", "ready"]


def test_tenants_take_turns_in_the_tick(isolated_driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TASKS_PER_TICK", 2)
    many, few = sorted((isolated_driver, RunDriver(isolated_driver.database)), key=lambda each: each.tenant)
    waiting = [held_back(many, "limited"), held_back(many, "noop"), held_back(few)]
    assert limits.fill_waiting(isolated_driver.database) == 2
    statuses = [isolated_driver.statuses(each)["a"] for each in waiting]
    assert statuses == ["queued", "ready", "queued"]


_LOCK_NOW = "SELECT 1 FROM tasks WHERE tenant_id = :tenant AND id = :id FOR NO KEY UPDATE NOWAIT"


def test_limits_are_locked_in_the_order_of_their_tasks(driver: RunDriver) -> None:
    """Two that fill the same ones would wait for each other otherwise."""
    with driver.database.transaction() as tx:
        tx.execute(_LOCK_NOW, {"tenant": driver.tenant, "id": "limited"})
        wanted = ("single", "limited", "single")
        beside = BackgroundCall(
            lambda: driver.database.run(lambda tx: limits.fill(tx, driver.tenant, wanted))
        )
        beside.__enter__()
        wait_for_lock(driver.database)
        other = tx.execute(_LOCK_NOW, {"tenant": driver.tenant, "id": "single"})
        assert other.first() is not None, "who waits for the first holds none"
    assert beside.result == 0
