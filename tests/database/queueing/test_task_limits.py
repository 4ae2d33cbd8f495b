"""Limits of tasks that an operator sets: they hold across deployments, until they are taken away."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.run_driver import TASKS, RunDriver

from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.queueing import task_limits
from pipeweave.orchestrator.recovery import task_moves
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Document


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    made.store({"a": []}, id="limited", tasks={"a": "limited"})
    return made


def set_limits(driver: RunDriver, task: str, concurrency: int | None = None, rate: str | None = None) -> None:
    driver.database.run(
        lambda tx: task_limits.set_limits(
            tx, driver.tenant, task, concurrency=concurrency, rate=rate, by="alice", reason="tonight"
        )
    )


def task(driver: RunDriver, id: str = "limited") -> Document:
    with driver.database.reading() as tx:
        return reading.task(tx, driver.tenant, id)


def deploy(driver: RunDriver, *tasks: object) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, *tasks, version="next")  # type: ignore[arg-type]


def statuses(driver: RunDriver, runs: list[UUID]) -> Counter[str]:
    return Counter(driver.statuses(run_id)["a"] for run_id in runs)


def test_a_raised_limit_releases_what_it_held_at_once(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(5)]
    assert statuses(driver, runs) == {"queued": 2, "ready": 3}
    set_limits(driver, "limited", concurrency=4)
    assert statuses(driver, runs) == {"queued": 4, "ready": 1}
    set_limits(driver, "limited", concurrency=0)
    assert statuses(driver, runs) == {"queued": 5}


def test_a_lower_limit_stops_nothing_and_lets_nothing_follow(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(4)]
    set_limits(driver, "limited", concurrency=1)
    driver.finish(runs[0], "a")
    assert statuses(driver, runs) == {"completed": 1, "queued": 1, "ready": 2}


def test_it_stays_when_other_code_is_deployed_and_ends_when_it_is_taken_away(driver: RunDriver) -> None:
    set_limits(driver, "limited", concurrency=7, rate="10/m")
    deploy(driver, "noop", a_task("limited", "changed", concurrency=3), a_task("single", concurrency=1))
    found = task(driver)
    assert (found["concurrency"], found["rateLimit"], found["codeVersion"]) == (7, "10/m", 2)
    assert (found["declaredConcurrency"], found["declaredRateLimit"]) == (3, None)
    assert (found["concurrencyOverride"], found["rateLimitOverride"]) == (7, "10/m")
    assert (found["limitsSetBy"], found["limitsReason"]) == ("alice", "tonight")
    set_limits(driver, "limited")
    found = task(driver)
    assert (found["concurrency"], found["rateLimit"], found["limitsSetAt"]) == (3, None, None)


def test_one_of_the_two_may_be_left_to_the_code(driver: RunDriver) -> None:
    deploy(
        driver, "noop", a_task("limited", concurrency=3, rate_limit="5/s"), a_task("single", concurrency=1)
    )
    set_limits(driver, "limited", rate=task_limits.NO_RATE)
    assert (task(driver)["concurrency"], task(driver)["rateLimit"]) == (3, None)
    deploy(
        driver, "noop", a_task("limited", concurrency=9, rate_limit="5/s"), a_task("single", concurrency=1)
    )
    assert (task(driver)["concurrency"], task(driver)["rateLimit"]) == (9, None)
    assert task(driver)["declaredRateLimit"] == "5/s"


def test_a_task_that_gains_a_limit_gives_it_to_its_open_task_runs(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]}, id="free")
    run_id = driver.trigger("free")
    set_limits(driver, "noop", concurrency=1)
    task_moves.move_open(driver.database)
    rows = driver.rows("SELECT is_limited FROM task_runs WHERE run_id = :id", id=run_id)
    assert [row.is_limited for row in rows] == [True, True]


def test_an_unknown_task_is_not_found(driver: RunDriver) -> None:
    with pytest.raises(NotFound):
        set_limits(driver, "nothing", concurrency=1)


def test_the_list_says_who_holds_the_slots(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(5)]
    with driver.database.reading() as tx:
        found = {each["taskId"]: each for each in reading.task_limits(tx, driver.tenant)}
    assert set(found) == {each.id for each in TASKS if not isinstance(each, str)}
    limited = found["limited"]
    assert (limited["live"], limited["concurrency"], limited["held"]) == (2, 2, 3)
    assert [each["slots"] for each in limited["holders"]] == [1, 1]
    assert {each["pipelineId"] for each in limited["holders"]} == {"limited"}
    assert (limited["isOverridden"], limited["isPaused"], len(runs)) == (False, False, 5)
    assert found["single"]["holders"] == []
