"""A loop runs a pipeline in rounds, each a child of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.child_runs import children, loop, task_run
from support.engine_steps import transform
from support.run_driver import PERMANENT, Clock, RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import StepSpec

HOUR_MS = 3_600_000


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with a pipeline `round` of one step, and one that counts."""
    driver = RunDriver(database)
    store(driver)
    return driver


def store(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("work", "noop"), id="round")
    driver.store_steps(transform("add", {"n": "${(input.last.n ?? 0) + 1}"}), id="count")


def test_a_loop_ends_when_its_condition_is_true(driver: RunDriver) -> None:
    driver.store_steps(loop("try", "round", 5, until="loop.last.done", params={"number": "${loop.index}"}))
    run_id = driver.trigger()
    for number, is_done in enumerate((False, False, True)):
        newest = children(driver, run_id)[-1]
        assert newest.input == {"number": number}
        driver.finish(newest.id, "work", output={"done": is_done})
    assert len(children(driver, run_id)) == 3
    assert task_run(driver, run_id, "try").output == {"done": True}
    assert driver.run(run_id).status == "completed"


def test_a_loop_that_never_succeeds_fails_at_its_limit(driver: RunDriver) -> None:
    driver.store_steps(loop("try", "round", 2, until="loop.last.done"))
    run_id = driver.trigger()
    for _ in range(2):
        driver.finish(children(driver, run_id)[-1].id, "work", output={"done": False})
    assert task_run(driver, run_id, "try").error_code == "LOOP_LIMIT"
    assert driver.run(run_id).status == "failed"


def test_a_loop_collects_the_outputs_of_its_rounds(driver: RunDriver) -> None:
    driver.store_steps(loop("try", "round", 3, collect=True))
    run_id = driver.trigger()
    for number in range(3):
        driver.finish(children(driver, run_id)[-1].id, "work", output=number)
    assert task_run(driver, run_id, "try").output == [0, 1, 2]


def test_a_round_gets_what_the_round_before_gave(driver: RunDriver) -> None:
    driver.store_steps(loop("sum", "count", 20, until="last.n >= 12", params={"last": "${loop.last}"}))
    run_id = driver.trigger()
    key = (run_id, task_run(driver, run_id, "sum").id)
    while driver.run(run_id).status == "running":
        look(driver.database, VALUES, [key])
    assert task_run(driver, run_id, "sum").output == {"n": 12}


def test_a_failed_round_fails_the_loop(driver: RunDriver) -> None:
    driver.store_steps(loop("try", "round", 3))
    run_id = driver.trigger()
    driver.finish(children(driver, run_id)[-1].id, "work", failure=PERMANENT)
    assert task_run(driver, run_id, "try").error_code == "CHILD_FAILED"


def test_the_next_round_begins_after_the_delay(isolated_driver: RunDriver, clock: Clock) -> None:
    driver = isolated_driver
    store(driver)
    driver.store_steps(loop("try", "round", 3, delay_ms=HOUR_MS))
    run_id = driver.trigger()
    driver.finish(children(driver, run_id)[0].id, "work", output=1)
    key = (run_id, task_run(driver, run_id, "try").id)
    look(driver.database, VALUES, [key])
    assert len(children(driver, run_id)) == 1
    assert driver.run(run_id).quiet_since is not None
    clock.ahead = timedelta(hours=1, seconds=1)
    look(driver.database, VALUES, [key])
    assert len(children(driver, run_id)) == 2


def test_a_loop_of_many_rounds_that_end_at_once_is_no_chain_of_calls(driver: RunDriver) -> None:
    driver.store_steps(loop("sum", "count", 80, until="last.n >= 70", params={"last": "${last}"}))
    run_id = driver.trigger()
    assert 5 < len(children(driver, run_id)) < 70
    key = (run_id, task_run(driver, run_id, "sum").id)
    while driver.run(run_id).status == "running":
        look(driver.database, VALUES, [key])
    assert task_run(driver, run_id, "sum").output == {"n": 70}
