"""The limit of the whole deployment: so many task runs of all tenants and tasks are at work, in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import call_concurrently
from support.factories import a_task, register
from support.run_driver import PERMANENT, RunDriver

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.diagnosis import stalled, why
from pipeweave.orchestrator.metrics import machine
from pipeweave.orchestrator.metrics.catalogue import MAX_RUNNING
from pipeweave.orchestrator.queueing import deployment_limit, limits
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(fresh_database: Database) -> Iterator[RunDriver]:
    made = RunDriver(fresh_database)
    register_more(made)
    yield made


def register_more(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(
            tx,
            driver.tenant,
            "noop",
            a_task("limited", concurrency=2),
            a_task("single", concurrency=1),
            "zeta",
        )
    driver.store({"a": []}, id="one")
    driver.store({"a": []}, id="last", tasks={"a": "zeta"})
    driver.store({"a": [], "b": ["a"]}, id="chain")


def limit(driver: RunDriver, most: int | None) -> None:
    driver.database.run(lambda tx: deployment_limit.set_limit(tx, most))


def at_work(driver: RunDriver) -> int:
    statement = "SELECT count(*) FROM task_runs WHERE status IN ('queued', 'running') AND kind <> 'map'"
    return int(driver.rows(statement)[0][0])


def statuses(driver: RunDriver, runs: list[UUID]) -> list[str]:
    return [driver.statuses(run_id)["a"] for run_id in runs]


def test_so_many_are_at_work_whatever_their_tasks_and_tenants(driver: RunDriver) -> None:
    limit(driver, 3)
    other = RunDriver(driver.database)
    register_more(other)
    for _ in range(3):
        driver.trigger("one")
        driver.trigger("last")
        other.trigger("one")
    assert at_work(driver) == 3


@pytest.mark.parametrize("failure", [None, PERMANENT])
def test_what_ends_makes_room_for_the_oldest_one_of_any_task(driver: RunDriver, failure: Any) -> None:
    limit(driver, 1)
    first, second, third = driver.trigger("last"), driver.trigger("one"), driver.trigger("last")
    driver.finish(first, "a", failure=failure)
    assert statuses(driver, [second, third]) == ["queued", "ready"]
    driver.finish(second, "a")
    assert statuses(driver, [third]) == ["queued"]


def test_a_cancelled_run_makes_room(driver: RunDriver) -> None:
    limit(driver, 1)
    first, second = driver.trigger("one"), driver.trigger("last")
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, first))
    assert statuses(driver, [second]) == ["queued"]


def test_the_best_priority_of_all_tasks_goes_first(driver: RunDriver) -> None:
    limit(driver, 1)
    first, usual = driver.trigger("one"), driver.trigger("one")
    urgent = driver.trigger("last", priority=-5)
    driver.finish(first, "a")
    assert statuses(driver, [usual, urgent]) == ["ready", "queued"]


def test_tenants_take_turns(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    register_more(other)
    limit(driver, 4)
    runs = [driver.trigger("one") for _ in range(8)]
    theirs = [other.trigger("one") for _ in range(4)]
    for run_id in runs[:4]:
        driver.finish(run_id, "a")
    going = Counter(statuses(driver, runs[4:])), Counter(statuses(other, theirs))
    assert going == ({"queued": 2, "ready": 2}, {"queued": 2, "ready": 2})


def test_steps_follow_each_other_under_the_limit_until_all_is_done(driver: RunDriver) -> None:
    limit(driver, 1)
    runs = [driver.trigger("chain") for _ in range(3)]
    for run_id in runs:
        for step in ("a", "b"):
            assert at_work(driver) == 1
            driver.finish(run_id, step)
    assert {driver.run(run_id).status for run_id in runs} == {"completed"}


def test_items_of_a_map_wait_for_places(driver: RunDriver) -> None:
    limit(driver, 2)
    run_id = driver.begin({"m": []}, maps={"m": [1, 2, 3, 4, 5]})
    items = Counter(row.status for row in driver.task_runs(run_id) if row.kind == "item")
    assert items == {"queued": 2, "ready": 3}


def test_the_limit_of_a_task_holds_besides(driver: RunDriver) -> None:
    driver.store({"a": []}, id="single", tasks={"a": "single"})
    limit(driver, 2)
    first, waiting = driver.trigger("single"), driver.trigger("single")
    beside = driver.trigger("one")
    assert statuses(driver, [first, waiting, beside]) == ["queued", "ready", "queued"]


def test_triggers_at_once_do_not_exceed_it(driver: RunDriver) -> None:
    limit(driver, 2)
    call_concurrently(*[lambda: driver.trigger("one"), lambda: driver.trigger("last")] * 4)
    assert at_work(driver) == 2


def test_a_higher_limit_and_none_take_effect_with_the_next_tick(driver: RunDriver) -> None:
    limit(driver, 1)
    for _ in range(4):
        driver.trigger("one")
        driver.trigger("last")
    limit(driver, 3)
    limits.fill_waiting(driver.database)
    assert at_work(driver) == 3
    limit(driver, None)
    limits.fill_waiting(driver.database)
    assert at_work(driver) == 8


def test_what_is_open_before_is_counted_and_goes_on(driver: RunDriver) -> None:
    before = driver.trigger("chain")
    limit(driver, 1)
    later = driver.trigger("one")
    assert statuses(driver, [later]) == ["ready"]
    driver.finish(before, "a")
    assert driver.statuses(before)["b"] == "queued"


def test_without_a_limit_no_task_run_is_held(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    [row] = driver.task_runs(run_id)
    assert (row.status, row.is_limited) == ("queued", False)


def test_a_waiting_one_says_what_it_waits_for_and_nothing_is_stalled(driver: RunDriver) -> None:
    limit(driver, 1)
    driver.trigger("one")
    waiting = driver.trigger("last")
    driver.rows("UPDATE task_runs SET queued_at = now() - interval '1 h' WHERE status = 'ready' RETURNING 1")
    with driver.database.transaction() as tx:
        [reason] = why.why(tx, driver.tenant, driver.task_runs(waiting)[0].id, lambda queue: {})["reasons"]
        assert [each for each in stalled._limits_with_room(tx)] == []
        shown = machine.tick(tx)
    assert reason == {
        "code": "deployment_limit",
        "text": "all places of the deployment are taken: so many task runs as its limit allows are at work",
    }
    assert shown.values[MAX_RUNNING] == {(): 1}


@pytest.mark.parametrize("most", [0, -1, 1_000_001])
def test_a_limit_out_of_range_is_refused(driver: RunDriver, most: int) -> None:
    with pytest.raises(InvalidInput, match="maxRunningTaskRuns"):
        limit(driver, most)
