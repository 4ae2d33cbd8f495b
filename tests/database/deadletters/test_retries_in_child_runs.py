"""The retry of a dead letter in a child run brings back the child, its step and the runs above."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, children, loop, only_child, task_run
from support.run_driver import PERMANENT, RunDriver, finish_next_attempt, settle
from support.stored_values import VALUES

from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import MapSpec, StepSpec


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with a pipeline `inner` of one step."""
    driver = RunDriver(database)
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    return driver


def retry(driver: RunDriver, run_id: UUID) -> None:
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id AND retried_at IS NULL", id=run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)


def end_again(driver: RunDriver, run_id: UUID, output: Any) -> None:
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == "work"]
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], row.attempt, worker="w1")
        settle(tx, started, output=output)


def check(driver: RunDriver, *runs: UUID) -> None:
    for each in runs:
        assert driver.run(each).status == "completed"
        with verify.snapshot(driver.database) as tx:
            assert verify.run(tx, each) == []


def test_the_whole_tree_goes_on(driver: RunDriver) -> None:
    driver.store_steps(child("down", "inner"), StepSpec("after", "noop", ("down",)), id="middle")
    driver.store_steps(child("call", "middle"), StepSpec("end", "noop", ("call",)))
    run_id = driver.trigger()
    middle = only_child(driver, run_id)
    inner = only_child(driver, middle)
    driver.finish(inner, "work", failure=PERMANENT)
    assert [driver.run(each).status for each in (run_id, middle, inner)] == ["failed"] * 3
    retry(driver, inner)
    assert [driver.run(each).status for each in (run_id, middle, inner)] == ["running"] * 3
    assert driver.statuses(run_id) == {"call": "waiting", "end": "pending"}
    end_again(driver, inner, 7)
    driver.finish(middle, "after")
    driver.finish(run_id, "end")
    check(driver, run_id, middle, inner)
    assert [len(children(driver, each)) for each in (run_id, middle)] == [1, 1]


def test_a_loop_goes_on_with_the_round_that_failed(driver: RunDriver) -> None:
    driver.store_steps(loop("try", "inner", 3, collect=True))
    run_id = driver.trigger()
    driver.finish(children(driver, run_id)[0].id, "work", output=0)
    failed = children(driver, run_id)[1].id
    driver.finish(failed, "work", failure=PERMANENT)
    retry(driver, failed)
    end_again(driver, failed, 1)
    driver.finish(children(driver, run_id)[2].id, "work", output=2)
    assert task_run(driver, run_id, "try").output == [0, 1, 2]
    check(driver, run_id)


def test_a_map_of_pipelines_begins_again_what_was_cancelled(driver: RunDriver) -> None:
    driver.store_steps(child("each", "inner", map=MapSpec("${input}", max_parallel=2)))
    run_id = driver.trigger(input=[1, 2, 3])
    failed = children(driver, run_id)[0].id
    driver.finish(failed, "work", failure=PERMANENT)
    retry(driver, failed)
    for each in driver.rows("SELECT run_id, task_run_id FROM waits WHERE run_id = :id", id=run_id):
        look(driver.database, VALUES, [tuple(each)])
    end_again(driver, failed, 0)
    while driver.run(run_id).status == "running":
        now = [each for each in children(driver, run_id) if each.status == "running"]
        driver.finish(now[0].id, "work")
    check(driver, run_id)


def test_a_map_of_pipelines_that_a_failure_stopped_begins_when_that_is_retried(driver: RunDriver) -> None:
    """Skipped because of the failure before it, or cancelled by the end of its run."""
    for mode in ("continue", "fail-fast"):
        each = child("each", "inner", ("first",), map=MapSpec([1]))
        driver.store_steps(StepSpec("first", "noop"), each, failure_mode=mode)
        run_id = driver.trigger()
        driver.finish(run_id, "first", failure=PERMANENT)
        retry(driver, run_id)
        with driver.database.transaction() as tx:
            finish_next_attempt(tx, run_id, 1)
        driver.finish(only_child(driver, run_id), "work")
        assert driver.statuses(run_id) == {"first": "completed", "each": "completed"}
        check(driver, run_id)


def test_a_map_of_pipelines_that_failed_before_it_had_items_is_retried(driver: RunDriver) -> None:
    driver.store_steps(child("each", "inner", map=MapSpec("${input.list}")))
    run_id = driver.trigger(input={"list": 5})
    assert driver.run(run_id).status == "failed"
    retry(driver, run_id)
    # The list is as wrong as before: it fails again, with another dead letter.
    row = task_run(driver, run_id, "each")
    assert (row.status, row.attempt, row.error_code) == ("failed", 2, "MAP_SOURCE_INVALID")
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


def test_a_child_that_its_parent_went_on_without_stays_ended(driver: RunDriver) -> None:
    driver.store_steps(child("call", "inner", continue_on_error=True), StepSpec("end", "noop", ("call",)))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    driver.finish(inner, "work", failure=PERMANENT)
    driver.finish(run_id, "end")
    assert driver.run(run_id).status == "completed"
    with pytest.raises(Conflict):
        retry(driver, inner)
    assert driver.run(inner).status == "failed"
